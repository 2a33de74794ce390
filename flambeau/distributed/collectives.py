"""What the processes of a group do together; with one of them, sums and copies of its own values.

Every function checks what PyTorch's checks, and hands back a finished `Work` with `async_op`.
"""

from __future__ import annotations

import enum
from typing import Any

from ..autograd.mode import no_grad
from ..tensor import Tensor
from .group import ProcessGroup, _check_rank, _member

__all__ = [
    "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "irecv", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # no name of it, as an enum sees it


class Work:
    """Something that was asked for, and is done."""

    def wait(self, timeout: Any = None) -> bool:
        """True, at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    is_success = is_completed

    def exception(self) -> None:
        """None: nothing went wrong."""
        return None


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def _tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type "
                        f"torch.Tensor but got {type(value)} instead.")  # fmt: skip


def _one(values: Any, name: str) -> Any:
    """The only element of a list with an element for each process."""
    if len(values) != 1:
        raise ValueError(f"{name} has {len(values)} elements for a group of one process")
    return values[0]


@no_grad()
def _copy(target: Tensor, source: Tensor) -> None:
    if target.numel() != source.numel():
        raise ValueError(f"a tensor of {list(source.shape)} does not fit one of "
                         f"{list(target.shape)}")  # fmt: skip
    target.copy_(source.reshape(target.shape))


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None
            ) -> Work | None:  # fmt: skip
    """Waits for the other processes, of which there is none."""
    _member(group)
    return _done(async_op)


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None,
                      wait_all_ranks: bool = False) -> None:  # fmt: skip
    """As `barrier`."""
    _member(group)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
               async_op: bool = False) -> Work | None:  # fmt: skip
    """Replaces a tensor by the sum (or another reduction) over the processes: itself.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> loss = torch.tensor(3.)
    >>> torch.distributed.all_reduce(loss)
    >>> loss
    tensor(3.)
    >>> torch.distributed.destroy_process_group()
    """
    _tensor(tensor, "tensor")
    _member(group)
    return _done(async_op)


def reduce(tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM,
           group: ProcessGroup | None = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:  # fmt: skip
    """As `all_reduce`, for process `dst` alone."""
    _check_rank(dst or group_dst or 0)
    return all_reduce(tensor, op, group, async_op)


def broadcast(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None,
              async_op: bool = False, group_src: int | None = None) -> Work | None:  # fmt: skip
    """Gives every process the tensor of process `src`."""
    _check_rank(src or group_src or 0)
    return all_reduce(tensor, group=group, async_op=async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None,
               async_op: bool = False) -> Work | None:  # fmt: skip
    """Copies each process's tensor into `tensor_list`."""
    _tensor(tensor, "tensor")
    _member(group)
    _copy(_one(tensor_list, "tensor_list"), tensor)
    return _done(async_op)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor,
                           group: ProcessGroup | None = None, async_op: bool = False
                           ) -> Work | None:  # fmt: skip
    """Copies the processes' tensors into one."""
    _member(group)
    _copy(output_tensor, input_tensor)
    return _done(async_op)


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
           group: ProcessGroup | None = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:  # fmt: skip
    """As `all_gather`, for process `dst` alone."""
    _check_rank(dst or group_dst or 0)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    return all_gather(gather_list, tensor, group, async_op)


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None,
            group: ProcessGroup | None = None, async_op: bool = False,
            group_src: int | None = None) -> Work | None:  # fmt: skip
    """Gives each process its element of the list that process `src` has."""
    _check_rank(src or group_src or 0)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    return all_gather([tensor], _one(scatter_list, "scatter_list"), group, async_op)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM,
                   group: ProcessGroup | None = None, async_op: bool = False
                   ) -> Work | None:  # fmt: skip
    """Reduces the lists of all processes; each gets its element."""
    return all_gather([output], _one(input_list, "input_list"), group, async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM,
                          group: ProcessGroup | None = None, async_op: bool = False
                          ) -> Work | None:  # fmt: skip
    """Reduces tensors over the processes; each gets its part."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor],
               group: ProcessGroup | None = None, async_op: bool = False
               ) -> Work | None:  # fmt: skip
    """Each process gives each other one an element of its list."""
    source = _one(input_tensor_list, "input_tensor_list")
    return all_gather(output_tensor_list, source, group, async_op)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Any = None,
                      input_split_sizes: Any = None, group: ProcessGroup | None = None,
                      async_op: bool = False) -> Work | None:  # fmt: skip
    """Each process gives each other one a part of its tensor."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None
                      ) -> None:  # fmt: skip
    """Puts each process's object into `object_list`."""
    _member(group)
    _one(object_list, "object_list")
    object_list[0] = obj


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
                  group: ProcessGroup | None = None, group_dst: int | None = None
                  ) -> None:  # fmt: skip
    """As `all_gather_object`, for process `dst` alone."""
    _check_rank(dst or group_dst or 0)
    all_gather_object(object_gather_list or [], obj, group)


def broadcast_object_list(object_list: list[Any], src: int | None = None,
                          group: ProcessGroup | None = None, device: Any = None,
                          group_src: int | None = None) -> None:  # fmt: skip
    """Gives every process the objects of process `src`."""
    _check_rank(src or group_src or 0)
    _member(group)


def scatter_object_list(scatter_object_output_list: list[Any],
                        scatter_object_input_list: list[Any] | None = None,
                        src: int | None = None, group: ProcessGroup | None = None,
                        group_src: int | None = None) -> None:  # fmt: skip
    """Gives each process its object of the list that process `src` has."""
    _check_rank(src or group_src or 0)
    _member(group)
    scatter_object_output_list[0] = _one(scatter_object_input_list or [], "the input list")


def send(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
         group_dst: int | None = None) -> None:  # fmt: skip
    """ValueError: the only process there is cannot send to itself."""
    _member(group)
    raise ValueError("Invalid destination rank: destination rank should not be the same as the "
                     "rank of the current process.")  # fmt: skip


def recv(tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0,
         group_src: int | None = None) -> int:  # fmt: skip
    """ValueError: the only process there is cannot receive from itself."""
    _member(group)
    raise ValueError("Invalid source rank: source rank should not be the same as the rank of the "
                     "current process.")  # fmt: skip


isend, irecv = send, recv
