"""context_parallel: attention over sequences that are cut over processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .... import ops
from ....autograd.mode import no_grad
from ....nn import functional as F
from ....overrides import TorchFunctionMode
from ....tensor import Tensor
from ....tensor import dtypes as types
from ...device_mesh import DeviceMesh
from ...nn.functional import all_gather
from ..dtensor import DTensor
from ..placement_types import Shard
from .sequence_shards import OPTIONS, RotateMethod, create_default_balancer, cut_buffers

__all__ = ["context_parallel", "set_rotate_method"]

_AXIS = 2  # of the sequence in query, key and value: (batch, heads, sequence, features)


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh, *, buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None, no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Cut buffers along their sequence; inside, attention reaches over the whole sequence.

    Each process keeps its part of every buffer, in place. If the length divides by twice the number
    of processes, the part is a piece near the start and one as near the end, else one range.
    `scaled_dot_product_attention` of the parts of query, key and value (batch, heads, sequence,
    features) returns the part of its result. It gathers keys and values from all processes, and
    backward sums their gradients. At the end the buffers are whole again.

    Args:
        mesh: The processes that share the sequences, on one axis.
        buffers: Tensors without gradients that the sequence runs through: inputs, targets,
            positional embeddings. They are equal on all processes.
        buffer_seq_dims: Each buffer's axis of the sequence.
        no_restore_buffers: Buffers that stay cut.

    Raises ValueError unless there are as many axes as buffers, of the length of the first, and if
    `no_restore_buffers` has others; attention raises NotImplementedError for masks and for a
    length that does not divide by the number of processes.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor.experimental import context_parallel
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> x = torch.ones(1, 1, 4, 2)
    >>> with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
    ...     y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> y.shape
    torch.Size([1, 1, 4, 2])
    >>> torch.distributed.destroy_process_group()

    Source: https://docs.pytorch.org/tutorials/unstable/context_parallel.html
    """
    buffers, dims = buffers or [], buffer_seq_dims or []
    stay = no_restore_buffers or set()
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not all(any(other is buffer for buffer in buffers) for other in stay):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    length, was_balanced = buffers[0].shape[dims[0]], OPTIONS.enable_load_balance
    balancer = create_default_balancer(length, mesh.size(), buffers[0].device)
    with no_grad():
        wholes = [None if buffer in stay else buffer.clone() for buffer in buffers]
        for buffer, part in zip(buffers, cut_buffers(mesh, buffers, dims, balancer), strict=True):
            _replace(buffer, part.clone())
    OPTIONS.enable_load_balance = balancer is not None
    try:
        with _WholeAttention(mesh, length, balancer is not None):
            yield
    finally:
        OPTIONS.enable_load_balance = was_balanced
        with no_grad():
            for buffer, whole in zip(buffers, wholes, strict=True):
                if whole is not None:
                    _replace(buffer, whole)


def _replace(buffer: Tensor, values: Tensor) -> None:
    buffer.resize_(values.shape)
    buffer.copy_(values)


class _WholeAttention(TorchFunctionMode):
    """Attention of local queries to the keys and values of all processes."""

    reaches_recomputation = True  # a checkpointed function gathers again

    def __init__(self, mesh: DeviceMesh, length: int, is_balanced: bool) -> None:
        self.mesh, self.length, self.is_balanced = mesh, length, is_balanced

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Attend to the whole sequence, or call any other function."""
        if func is F.multi_head_attention_forward:
            raise NotImplementedError("multi_head_attention_forward under context_parallel is not "
                                      "implemented in flambeau: use scaled_dot_product_attention")
        if func is F.scaled_dot_product_attention:
            return self._attend(*args, **kwargs or {})
        return func(*args, **kwargs or {})

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
        dropout_p: float = 0.0, is_causal: bool = False, **options: Any,
    ) -> Tensor:
        """Return the local part of attention over the whole sequence."""
        query, key, value = map(_take_local, (query, key, value))
        self._check(query, key, value, attn_mask, is_causal)
        if not key.dtype == value.dtype == query.dtype:  # raises the usual error
            return F.scaled_dot_product_attention(query, key, value)
        parts = all_gather(ops.cat([key, value], -1), self.mesh.get_group())
        widths, options = [key.size(-1), value.size(-1)], {**options, "dropout_p": dropout_p}
        if not is_causal:
            return F.scaled_dot_product_attention(
                query, *ops.cat(parts, _AXIS).split(widths, -1), **options)
        pieces, mine = self._sort(parts)
        keys, values = ops.cat(pieces, _AXIS).split(widths, -1)
        step = pieces[0].size(_AXIS)
        return ops.cat([
            _attend_causally(rows, keys.narrow(_AXIS, 0, (i + 1) * step),
                             values.narrow(_AXIS, 0, (i + 1) * step), options)
            for i, rows in zip(mine, query.chunk(len(mine), _AXIS), strict=True)], _AXIS)

    def _sort(self, parts: tuple[Tensor, ...]) -> tuple[list[Tensor], list[int]]:
        """Return the pieces that local queries see in the sequence's order, and which are local."""
        rank, last = self.mesh.get_local_rank(), 2 * len(parts) - 1
        if not self.is_balanced:
            return list(parts[:rank + 1]), [rank]
        halves = [part.chunk(2, _AXIS) for part in parts]
        pieces = [*(head for head, _ in halves), *(tail for _, tail in reversed(halves))]
        return pieces[:last - rank + 1], [rank, last - rank]

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool
    ) -> None:
        """Raise NotImplementedError or ValueError for calls that PyTorch does not take either."""
        if mask is not None:
            raise NotImplementedError("attn_bias is not supported yet")
        if not query.ndim == key.ndim == value.ndim == 4:
            raise ValueError("context_parallel expects query, key and value of four dimensions, "
                             f"got {query.ndim}, {key.ndim} and {value.ndim}")
        if is_causal and query.size(_AXIS) != key.size(_AXIS):
            raise NotImplementedError(
                "is_causal requires the same query and context sequence lengths")
        if self.length % self.mesh.size():
            raise NotImplementedError(
                f"attention under context_parallel over a sequence of {self.length}, which "
                f"{self.mesh.size()} processes do not share evenly")


def _take_local(x: Tensor) -> Tensor:
    if not isinstance(x, DTensor):
        return x
    if x.placements != (Shard(_AXIS),):
        raise AssertionError
    return x.to_local()


def _attend_causally(
    query: Tensor, keys: Tensor, values: Tensor, options: dict[str, Any]
) -> Tensor:
    """Attend from the last positions of the keys, each to those up to its own."""
    rows, columns = query.size(_AXIS), keys.size(_AXIS)
    if rows == columns:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, **options)
    mask = ops.tril(ops.ones(rows, columns, dtype=types.bool_), columns - rows)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, **options)


def set_rotate_method(rotate_method: str) -> None:
    """Choose how keys and values travel under `context_parallel`: "allgather" or "alltoall".

    Here both gather them. Raises NotImplementedError for other names.

    >>> from flambeau.distributed.tensor.experimental._attention import set_rotate_method
    >>> set_rotate_method("allgather")

    Source: https://docs.pytorch.org/tutorials/unstable/context_parallel.html
    """
    names = {"allgather": RotateMethod.ALL_GATHER, "alltoall": RotateMethod.ALL_TO_ALL}
    if rotate_method not in names:
        raise NotImplementedError("Context Parallel does not support using "
                                  f"{rotate_method} for kv shards rotation")
    OPTIONS.rotate_method = names[rotate_method]
