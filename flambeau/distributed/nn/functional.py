"""Differentiable collectives: each returns new tensors, and its backward is a collective too.

The loss is the sum of all processes' losses: if one process uses another's tensor, the gradient
flows back there. All processes must run backward through the same collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...autograd.function import Function
from ...tensor import Tensor
from .. import collectives
from ..process_group import rank_in, require_member
from ..reduce_op import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]


def _find_rank(group: Any) -> int:
    return require_member(group).rank()


def _create_empty_rows(template: Tensor, group: Any) -> list[Tensor]:
    return [ops.empty_like(template) for _ in range(require_member(group).size())]


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        y = tensor.clone().contiguous()
        collectives.broadcast(y, src, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, g)
        is_source = rank_in(require_member(ctx.group), ctx.src) == _find_rank(ctx.group)
        return None, None, total if is_source else ops.zeros_like(g)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        y = tensor.clone().contiguous()
        collectives.reduce(y, dst, op, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, g)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        y = tensor.clone().contiguous()
        collectives.all_reduce(y, op, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, g)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        rows = _create_empty_rows(tensor, group)
        at_root = rank_in(require_member(group), dst) == _find_rank(group)
        collectives.gather(tensor.contiguous(), rows if at_root else None, dst, group)
        if not at_root:
            rows = [ops.zeros_like(tensor) for _ in rows]
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Any, ...]:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *g)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        y = ops.zeros_like(tensors[0]).contiguous()
        at_root = rank_in(require_member(group), src) == _find_rank(group)
        collectives.scatter(y, [x.contiguous() for x in tensors] if at_root else None, src, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, *_Gather.apply(ctx.src, ctx.group, g)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, template: Tensor, *tensors: Tensor) -> Tensor:
        ctx.group = group
        y = ops.empty_like(template)
        collectives.reduce_scatter(y, [x.contiguous() for x in tensors], op, group)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, None, *_AllGather.apply(ctx.group, g)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        rows = _create_empty_rows(tensor, group)
        collectives.all_gather(rows, tensor.contiguous(), group)
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Any, ...]:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, g[0], *g)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Sequence[Tensor], *tensors: Tensor) -> Any:
        ctx.group, ctx.likes = group, [ops.empty_like(x) for x in tensors]
        filled = [ops.empty_like(y) for y in outputs]
        collectives.all_to_all(filled, [x.contiguous() for x in tensors], group)
        return tuple(filled)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Any, ...]:
        return None, None, *_AllToAll.apply(ctx.group, ctx.likes, *g)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Tensor, out_splits: Any, in_splits: Any,
                tensor: Tensor) -> Tensor:
        ctx.group, ctx.like = group, ops.empty_like(tensor)
        ctx.splits = in_splits, out_splits
        filled = ops.empty_like(output)
        collectives.all_to_all_single(filled, tensor.contiguous(), out_splits, in_splits, group)
        return filled

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, ctx.like, *ctx.splits, g)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return the tensor of process `src`. Its gradient is the sum of all processes' gradients."""
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Return the processes' tensors on process `dst`, zeros elsewhere."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Return this process's element of the list on process `src`."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum (or another reduction) over the processes, on process `dst`."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM,
                   group: Any = None) -> Tensor:
    """Reduce the lists elementwise; return this process's element, with `output`'s shape."""
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Return the tensors of all processes."""
    return _AllGather.apply(group, tensor)


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor],
               group: Any = None) -> tuple[Tensor, ...]:
    """Return the processes' elements for this one. The first argument gives the shapes."""
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Any = None,
                      input_split_sizes: Any = None, group: Any = None) -> Tensor:
    """Exchange parts of one tensor, as `all_to_all`. `output` gives the result's shape."""
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Return the sum (or another reduction) over the processes.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.distributed.nn.functional.all_reduce(2 * x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    >>> torch.distributed.destroy_process_group()
    """
    return _AllReduce.apply(op, group, tensor)
