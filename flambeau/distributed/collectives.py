"""Collectives: operations on tensors that all processes of a group run together.

With `async_op=True` each returns a `Work`; otherwise it blocks and returns None. A process outside
the group does nothing. `src` and `dst` are global ranks, `group_src` and `group_dst` ranks in the
group.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..native.foundation.user_frames import warn
from ..tensor import Tensor
from .collective_launch import Destination, launch, require_tensor, require_tensors, source_array
from .engines.engine import Array, reduce_array
from .errors import DistStoreError
from .process_group import NON_MEMBER, ProcessGroup, rank_in, require_member
from .reduce_op import ReduceOp
from .work import Work

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter",
]


def _is_outside(group: Any, name: str) -> bool:
    """Return whether this process is outside the group, with a warning if so."""
    if group != NON_MEMBER:
        return False
    warn(f"Running {name} on global rank {require_member().rank()} which does not belong to the "
         "given group.")
    return True


# Module globals: before Python 3.12, looking up an Enum member runs Python code.
_SUM, _AVG, _PREMUL_SUM = ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def _check_op(op: ReduceOp, tensor: Tensor) -> None:
    if op in _BITWISE and (
        tensor.dtype.is_floating_point or tensor.dtype.is_complex
    ):
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op is _PREMUL_SUM:
        raise NotImplementedError("torch.distributed.ReduceOp.PREMUL_SUM is not implemented in "
                                  "flambeau: scale the tensor, then use SUM")
    if tensor.dtype.is_complex and op not in (_SUM, _AVG):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")


def _check_sizes(function: str, kind: str, tensors: Sequence[Tensor], template: Tensor) -> None:
    """Raise RuntimeError if a tensor of the list differs from `template` in dtype or size."""
    dtype, size = template.dtype, template.numel()
    for i, tensor in enumerate(tensors):
        if tensor.dtype is not dtype:
            raise RuntimeError(f"ProcessGroupGloo::{function}: invalid tensor type at index {i} "
                               f"(expected {dtype}, got {tensor.dtype})")
        if tensor.numel() != size:
            raise RuntimeError(
                f"ProcessGroupGloo::{function}: invalid {kind}tensor size at index {i} (expected "
                f"({', '.join(map(str, template.shape))}), got "
                f"({', '.join(map(str, tensor.shape))}))"
            )


def _check_length(function: str, kind: str, tensors: Sequence[Tensor], size: int) -> None:
    if len(tensors) != size:
        raise RuntimeError(
            f"ProcessGroupGloo::{function}: invalid {kind} tensor list at index 0 (expected length "
            f"{size}, got {len(tensors)})"
        )


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None,
               async_op: bool = False) -> Work | None:
    """Replace a tensor by its sum (or another reduction) over the processes.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> loss = torch.tensor(3.)
    >>> torch.distributed.all_reduce(loss)
    >>> loss
    tensor(3.)
    >>> torch.distributed.destroy_process_group()
    """
    require_tensor(tensor, "tensor")
    if _is_outside(group, "all_reduce"):
        return None
    pg = require_member(group)
    if op is not _SUM:
        _check_op(op, tensor)
    target, engine = Destination(tensor), pg._engine

    def call() -> None:
        if target.array.size:
            reduce_array(target.array, op, engine, engine.all_reduce)
            target.settle()

    return launch(pg, "ALLREDUCE", call, [tensor], [tensor], async_op)


def all_reduce_coalesced(tensors: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:
    """Apply `all_reduce` to each tensor of a list."""
    require_tensors(tensors, "tensors")
    if _is_outside(group, "all_reduce_coalesced"):
        return None
    pg = require_member(group)
    targets, engine = [Destination(tensor) for tensor in tensors], pg._engine

    def call() -> None:
        for target in targets:
            reduce_array(target.array, op, engine, engine.all_reduce)
            target.settle()

    return launch(pg, "ALLREDUCE_COALESCED", call, tensors, tensors, async_op)


def reduce(tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM,
           group: Any = None, async_op: bool = False, group_dst: int | None = None
           ) -> Work | None:
    """Reduce a tensor over the processes to process `dst`."""
    require_tensor(tensor, "tensor")
    if _is_outside(group, "reduce"):
        return None
    pg = require_member(group)
    root = rank_in(pg, dst, group_dst)
    _check_op(op, tensor)
    target, engine = Destination(tensor), pg._engine

    def call() -> None:
        if target.array.size == 0:
            return
        buffer = target.array if pg.rank() == root else target.array.copy()
        reduce_array(buffer, op, engine, lambda array, plain: engine.reduce(array, plain, root))
        target.settle()

    return launch(pg, "REDUCE", call, [tensor], [tensor], async_op)


def broadcast(tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:
    """Copy the tensor of process `src` to every process."""
    require_tensor(tensor, "tensor")
    if _is_outside(group, "broadcast"):
        return None
    pg = require_member(group)
    root = rank_in(pg, src, group_src)
    target, engine = Destination(tensor), pg._engine

    def call() -> None:
        if target.array.size:
            engine.broadcast(target.array, root)
            target.settle()

    return launch(pg, "BROADCAST", call, [tensor], [tensor], async_op)


def _allocate_gathered(pg: ProcessGroup, template: Array) -> Array:
    """Allocate room for one array like `template` per member."""
    return np.empty((pg.size(), *template.shape), template.dtype)


def _spread(rows: Array, targets: Sequence[Destination]) -> None:
    """Copy one row to each destination, reshaped to fit."""
    for row, target in zip(rows, targets, strict=True):
        array = target.array
        np.copyto(array, row if row.shape == array.shape else row.reshape(array.shape))
        target.settle()


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None,
               async_op: bool = False) -> Work | None:
    """Copy each process's tensor into `tensor_list`."""
    require_tensors(tensor_list, "tensor_list")
    require_tensor(tensor, "tensor")
    if _is_outside(group, "all_gather"):
        return None
    pg = require_member(group)
    _check_length("allgather", "output", tensor_list, pg.size())
    _check_sizes("allgather", "", tensor_list, tensor)
    source, engine = source_array(tensor), pg._engine
    targets = [Destination(output) for output in tensor_list]

    def call() -> None:
        rows = _allocate_gathered(pg, source)
        if source.size:
            engine.all_gather(rows, source)
            _spread(rows, targets)

    return launch(pg, "ALLGATHER", call, [tensor], tensor_list, async_op, [tensor_list])


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                           async_op: bool = False) -> Work | None:
    """Concatenate the tensors of all processes into one."""
    require_tensor(output_tensor, "output_tensor")
    require_tensor(input_tensor, "input_tensor")
    if _is_outside(group, "all_gather_into_tensor"):
        return None
    pg = require_member(group)
    if output_tensor.dtype != input_tensor.dtype:
        raise RuntimeError("output tensor must have the same type as input tensor")
    if output_tensor.numel() != input_tensor.numel() * pg.size():
        raise RuntimeError("output tensor size must be equal to world_size times input tensor size")
    source, target, engine = source_array(input_tensor), Destination(output_tensor), pg._engine

    def call() -> None:
        if source.size:
            engine.all_gather(target.array, source)
            target.settle()

    return launch(pg, "_ALLGATHER_BASE", call, [input_tensor], [output_tensor], async_op)


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
           group: Any = None, async_op: bool = False, group_dst: int | None = None
           ) -> Work | None:
    """Copy each process's tensor into `gather_list` of process `dst` (default 0)."""
    require_tensor(tensor, "tensor")
    if _is_outside(group, "gather"):
        return None
    pg = require_member(group)
    root = 0 if dst is None and group_dst is None else rank_in(pg, dst, group_dst)
    at_root = pg.rank() == root
    if at_root and not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not at_root and gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    outputs = list(gather_list or ())
    require_tensors(outputs, "gather_list")
    if at_root:
        _check_length("gather", "output", outputs, pg.size())
        _check_sizes("gather", "", outputs, tensor)
    source, engine = source_array(tensor), pg._engine
    targets = [Destination(output) for output in outputs]

    def call() -> None:
        rows = _allocate_gathered(pg, source) if at_root else None
        if source.size:
            engine.gather(rows, source, root)
        if rows is not None:
            _spread(rows, targets)

    return launch(pg, "GATHER", call, [tensor], outputs, async_op)


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None,
            group: Any = None, async_op: bool = False, group_src: int | None = None
            ) -> Work | None:
    """Give each process its element of the list on process `src` (default 0)."""
    require_tensor(tensor, "tensor")
    if _is_outside(group, "scatter"):
        return None
    pg = require_member(group)
    root = 0 if src is None and group_src is None else rank_in(pg, src, group_src)
    at_root = pg.rank() == root
    if at_root and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if not at_root and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    inputs = list(scatter_list or ())
    require_tensors(inputs, "scatter_list")
    if at_root:
        _check_length("scatter", "input", inputs, pg.size())
        _check_sizes("scatter", "", inputs, tensor)
    target, engine = Destination(tensor), pg._engine
    parts = [source_array(part) for part in inputs] if at_root else None

    def call() -> None:
        if target.array.size:
            engine.scatter(target.array, parts, root)
            target.settle()

    return launch(pg, "SCATTER", call, [tensor], [tensor], async_op)


def _reduce_scattered(pg: ProcessGroup, stacked: Array, target: Destination, op: ReduceOp) -> None:
    """Reduce all rows over the processes; keep this process's row."""
    engine = pg._engine
    if stacked.size:
        reduce_array(stacked, op, engine, engine.all_reduce)
        np.copyto(target.array, stacked[pg.rank()].reshape(target.array.shape))
        target.settle()


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM,
                   group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce the processes' lists elementwise; process i gets element i."""
    require_tensor(output, "output")
    require_tensors(input_list, "input_list")
    if _is_outside(group, "reduce_scatter"):
        return None
    pg = require_member(group)
    _check_op(op, output)
    _check_length("reduce_scatter", "input", input_list, pg.size())
    if len({tuple(x.shape) for x in input_list}) > 1 or input_list[0].numel() != output.numel():
        _check_sizes("reduce_scatter", "", input_list, output)
    target = Destination(output)
    stacked = np.stack([source_array(part).reshape(-1) for part in input_list])

    def call() -> None:
        _reduce_scattered(pg, stacked, target, op)

    return launch(pg, "REDUCE_SCATTER", call, input_list, [output], async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM,
                          group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce tensors over the processes; each process gets its part along the first axis."""
    require_tensor(output, "output")
    require_tensor(input, "input")
    if _is_outside(group, "reduce_scatter_tensor"):
        return None
    pg = require_member(group)
    _check_op(op, output)
    if output.dtype != input.dtype:
        raise RuntimeError("input tensor must be the same type as the output tensor.")
    if output.numel() * pg.size() != input.numel():
        raise RuntimeError("input tensor must be the same size as output size times world size")
    target = Destination(output)
    stacked = source_array(input).reshape(pg.size(), -1).copy()

    def call() -> None:
        _reduce_scattered(pg, stacked, target, op)

    return launch(pg, "_REDUCE_SCATTER_BASE", call, [input], [output], async_op)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor],
               group: Any = None, async_op: bool = False) -> Work | None:
    """Send element i of each process's list to process i."""
    require_tensors(output_tensor_list, "output_tensor_list")
    require_tensors(input_tensor_list, "input_tensor_list")
    if _is_outside(group, "all_to_all"):
        return None
    pg = require_member(group)
    _check_length("alltoall", "output", output_tensor_list, pg.size())
    _check_length("alltoall", "input", input_tensor_list, pg.size())
    engine, targets = pg._engine, [Destination(output) for output in output_tensor_list]
    sources = [source_array(part) for part in input_tensor_list]

    def call() -> None:
        engine.all_to_all([target.array for target in targets], sources)
        for target in targets:
            target.settle()

    return launch(pg, "ALLTOALL", call, [], output_tensor_list, async_op)


def _split_array(array: Array, sizes: Sequence[int] | None, count: int, kind: str) -> list[Array]:
    """Split an array along its first axis into equal parts, or parts of given lengths."""
    length = array.shape[0] if array.ndim else 1
    if not sizes:
        if length % count:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [length // count] * count
    if len(sizes) != count:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != length:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    ends = np.cumsum([0, *sizes])
    rows = array.reshape(length, -1)
    return [rows[start:end] for start, end in zip(ends, ends[1:], strict=False)]


def all_to_all_single(output: Tensor, input: Tensor,
                      output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: Any = None,
                      async_op: bool = False) -> Work | None:
    """Send part i of each process's tensor, split along the first axis, to process i."""
    require_tensor(output, "output")
    require_tensor(input, "input")
    if _is_outside(group, "all_to_all_single"):
        return None
    pg = require_member(group)
    target, engine = Destination(output), pg._engine
    outputs = _split_array(target.array, output_split_sizes, pg.size(), "output")
    inputs = _split_array(source_array(input), input_split_sizes, pg.size(), "input")

    def call() -> None:
        engine.all_to_all(outputs, inputs)
        target.settle()

    return launch(pg, "ALLTOALL_BASE", call, [], [output], async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None
            ) -> Work | None:
    """Wait until all processes of the group arrive."""
    if _is_outside(group, "barrier"):
        return None
    pg = require_member(group)
    return launch(pg, "BARRIER", pg._engine.barrier, [], [], async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None,
                      wait_all_ranks: bool = False) -> None:
    """Wait as `barrier` does; raise a RuntimeError that names a rank that does not arrive.

    With `wait_all_ranks` the error names all missing ranks.
    """
    if _is_outside(group, "monitored_barrier"):
        return
    pg = require_member(group)
    if pg.size() == 1:
        return
    limit = timeout or pg._timeout
    number = next(pg._sequence)
    if pg._store is None:
        raise NotImplementedError("torch.distributed.monitored_barrier with backend='mpi' is not "
                                  "implemented in flambeau")
    key = f"monitored_barrier/{number}"
    if pg.rank() != 0:
        _report_to_first(pg, key, limit)
        return
    missing: list[int] = []
    for rank in range(1, pg.size()):
        try:
            pg._store.wait([f"{key}/{rank}"], limit if not missing else timedelta(milliseconds=10))
        except (DistStoreError, RuntimeError):
            missing.append(rank)
            if not wait_all_ranks:
                break
    pg._store.set(f"{key}/done", ",".join(map(str, missing)) or "all")
    if missing:
        names = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
        raise RuntimeError(f"[Rank 0]: {names} failed to pass monitoredBarrier in "
                           f"{limit // timedelta(milliseconds=1)} ms")


def _report_to_first(pg: ProcessGroup, key: str, limit: timedelta) -> None:
    """Report this rank's arrival and wait for rank 0's verdict."""
    assert pg._store is not None
    rank = pg.rank()
    failure = RuntimeError(
        f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0. Please check rank 0 logs for faulty rank."
    )
    pg._store.set(f"{key}/{rank}", b"1")
    try:
        pg._store.wait([f"{key}/done"], limit * 2)  # rank 0 waits at most once for missing ranks
        known = pg._store.get(f"{key}/done")
    except RuntimeError:
        raise failure from None
    if known != b"all":
        failure.add_note(f"Rank 0 misses rank(s) {known.decode()}.")
        raise failure


# PyTorch's other names of these functions.
_all_gather_base = all_gather_single = all_gather_into_tensor
_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor
