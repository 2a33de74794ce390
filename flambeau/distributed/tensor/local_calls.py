"""How an operator runs on this process's parts where the plain call would not do.

Most operators take the parts as they are. Some name global sizes in their arguments, write into
statistics of global length, look up rows of a part, or divide by a count over all processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ... import ops
from ...tensor import Tensor
from .. import collectives
from .placement_types import Partial, Placement, Replicate, sharded_dim
from .propagation import Operation
from .spec import find_local_part

__all__ = ["LOCAL_CALLS", "LocalCall", "count_targets"]


@dataclass
class LocalCall:
    """An operator on this process's parts. `wanted`: the inputs' placements after redistribution;
    `outputs`: those of the results, by mesh axis; `shapes`: the results' global shapes."""

    func: Any
    operation: Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    wanted: list[tuple[Placement, ...]]
    outputs: list[Any]
    shapes: list[tuple[int, ...]]

    def run(self, *args: Any) -> Any:
        """Call the operator with other positional arguments."""
        return self.func(*args, **self.kwargs)

    def find_axes(self, test: Callable[[Placement], bool], which: int) -> list[int]:
        """Return the mesh axes on which an input's placement passes a test."""
        return [a for a, p in enumerate(self.wanted[which]) if test(p)]

    def output_placements(self, which: int = 0) -> list[Placement]:
        """Return an output's placements."""
        return [o[which] if isinstance(o, tuple) else o for o in self.outputs]

    @property
    def mesh(self) -> Any:
        """The mesh of the operands."""
        return self.operation.inputs[0].mesh


def _is_cut(placement: Placement) -> bool:
    return sharded_dim(placement) is not None


def _call_with_size(position: int) -> Callable[[LocalCall], Any]:
    """Return a call whose argument at a position is the result's shape."""
    def call(local: LocalCall) -> Any:
        size = find_local_part(local.shapes[0], local.mesh, local.output_placements())[0]
        args = list(local.args)
        args[position] = list(size)
        return local.run(*args)

    return call


def _squeeze(local: LocalCall) -> Any:
    """Drop the axes that have one element globally, not those of which this process has one."""
    size = find_local_part(local.shapes[0], local.mesh, local.output_placements())[0]
    return local.args[0].view(size)


def _layer_norm(first: int) -> Callable[[LocalCall], Any]:
    """Return a call that uses the first rows of the statistics, which have all rows' length."""
    def call(local: LocalCall) -> Any:
        args = list(local.args)
        x = args[0]
        count = args[first + 2]
        rows = 1
        for size in x.shape[: x.dim() - count]:
            rows *= size
        for i in (first, first + 1):
            args[i] = args[i][:rows]
        return local.run(*args)

    return call


def _embedding(local: LocalCall) -> Any:
    """Look up rows of a part of the table; indices outside of it give zeros."""
    axes = local.find_axes(lambda p: sharded_dim(p) == 0, 0)
    if not axes or not any(isinstance(p, Partial) for p in local.output_placements()):
        return local.run(*local.args)
    weight, indices = local.args[:2]
    shape, offsets = find_local_part(
        local.operation.inputs[0].shape, local.mesh, local.wanted[0])
    own = indices - offsets[0]
    is_outside = (own < 0) | (own >= shape[0])
    if not shape[0]:
        return ops.zeros((*indices.shape, weight.shape[1]), dtype=weight.dtype)
    rows = local.func(weight, own.masked_fill(is_outside, 0))
    return rows.masked_fill(is_outside.unsqueeze(-1), 0.0)


def count_targets(target: Tensor, weight: Tensor | None, ignore_index: int, dtype: Any) -> Tensor:
    """Return the sum of the weights of the targets that count."""
    counts = target != ignore_index
    if weight is None:
        return counts.sum().to(dtype)
    total: Tensor = weight[target[counts]].sum()
    return total.to(dtype)


def _sum_over(total: Tensor, local: LocalCall, axes: Sequence[int]) -> Tensor:
    total = total.clone()
    for axis in axes:
        collectives.all_reduce(total, group=local.mesh.get_group(axis))
    return total


def _nll_loss(local: LocalCall) -> Any:
    """Divide the mean by the targets of all processes, not by the local ones."""
    x, target, weight, reduction, ignore_index = local.args[:5]
    axes = local.find_axes(_is_cut, 0)
    if reduction != 1 or not axes:
        return local.run(*local.args)
    loss, total = local.run(x, target, weight, 2, ignore_index)
    total = _sum_over(count_targets(target, weight, ignore_index, x.dtype), local, axes)
    processes = 1
    for axis in axes:
        processes *= local.mesh.size(axis)
    return loss * processes / total, total


def _scale_gradient(target_at: int, weight_at: int) -> Callable[[LocalCall], Any]:
    """Return the gradient of a mean over the targets of all processes."""
    def call(local: LocalCall) -> Any:
        args = list(local.args)
        reduction, ignore_index = args[-2:]
        axes = local.find_axes(_is_cut, target_at)
        if reduction == 1 and axes:
            g, target, weight = args[0], args[target_at], args[weight_at]
            total = _sum_over(count_targets(target, weight, ignore_index, g.dtype), local, axes)
            args[0], args[-2] = g / total, 2  # the gradient of a sum
        if local.operation.name == "_nll_loss_backward":
            args[3] = find_local_part(local.shapes[0], local.mesh, local.output_placements())[0]
        return local.run(*args)

    return call


def _place(local: LocalCall) -> Any:
    """Place a gradient into zeros of the local size."""
    size = find_local_part(local.shapes[0], local.mesh, local.output_placements())[0]
    full_size = tuple(local.args[1])
    if size == full_size:
        return local.run(*local.args)
    index = local.args[2] if isinstance(local.args[2], tuple) else (local.args[2],)
    return local.run(local.args[0], size, tuple(
        slice(None) if isinstance(e, slice) and e.indices(2**62) == (0, 2**62, 1) else e
        for e in index))


def _draw(local: LocalCall) -> Any:
    """Draw the global tensor's numbers in every process, and keep this process's part."""
    from .redistribute import redistribute_local

    target = local.args[0]
    spec = local.operation.inputs[0]
    if not any(map(_is_cut, spec.placements)):
        return local.run(*local.args)
    full = ops.empty(spec.shape, dtype=target.dtype)
    local.run(full, *local.args[1:])
    replicated = spec.with_placements((Replicate(),) * len(spec.placements))
    return target.copy_(redistribute_local(full, replicated, spec.placements))


LOCAL_CALLS: dict[str, Callable[[LocalCall], Any]] = {
    **{name: _call_with_size(1) for name in ("view", "_unsafe_view", "reshape", "expand")},
    "squeeze": _squeeze,
    **{f"new_{name}": _call_with_size(1) for name in ("empty", "zeros", "ones", "full")},
    "_layer_norm": _layer_norm(3), "_layer_norm_backward": _layer_norm(3),
    "embedding": _embedding,
    "nll_loss_forward": _nll_loss, "nll_loss2d_forward": _nll_loss,
    "_nll_loss_backward": _scale_gradient(1, 2), "_cross_entropy_backward": _scale_gradient(2, 3),
    "_placed": _place,
    **dict.fromkeys(("bernoulli_", "uniform_", "normal_", "exponential_", "geometric_", "cauchy_",
                     "log_normal_", "random_"), _draw),
}

