"""loss_parallel: cross entropy of logits that are cut along their classes, without gathering them.

Each process knows the logits of some classes. The greatest logit, the sum of exponentials and the
target's logit of every row are reduced over the processes; the gradient needs no communication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ... import collectives
from ...reduce_op import ReduceOp
from ..dispatch import STATE
from ..local_calls import LocalCall, count_targets
from ..placement_types import Replicate, Shard, sharded_dim
from ..propagation import Operation, Rule, Strategy
from ..spec import find_local_part

__all__ = ["loss_parallel"]

_MEAN, _NONE = 1, 0


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Context in which `cross_entropy` of a DTensor with `Shard` classes keeps them cut.

    The input is (N, C) or (C,), the target replicated or plain. Backward runs inside, too.
    """
    before, STATE.extra = STATE.extra, (_RULES, _CALLS)
    try:
        yield
    finally:
        STATE.extra = before


def _class_axes(local: LocalCall, which: int, dim: int) -> list[int]:
    """Return the mesh axes that cut the classes of an input."""
    return local.find_axes(lambda p: sharded_dim(p) == dim, which)


def _all_reduced(value: Any, local: LocalCall, axes: list[int], op: ReduceOp) -> Any:
    value = value.contiguous().clone()
    for axis in axes:
        collectives.all_reduce(value, op, local.mesh.get_group(axis))
    return value


def _log_softmax(local: LocalCall) -> Any:
    x, dim = local.args[0], local.args[1] % local.args[0].dim()
    axes = _class_axes(local, 0, dim)
    if not axes:
        return NotImplemented
    greatest = _all_reduced(x.amax(dim, True), local, axes, ReduceOp.MAX)
    shifted = x - greatest
    total = _all_reduced(shifted.exp().sum(dim, True), local, axes, ReduceOp.SUM)
    return shifted - total.log()


def _own_targets(local: LocalCall, which: int, target: Any, classes: int) -> tuple[Any, Any]:
    """Return the targets counted within this process's classes, and which lie outside of them."""
    spec = local.operation.inputs[which]
    start = find_local_part(spec.shape, local.mesh, local.wanted[which])[1][-1]
    own = target - start
    is_outside = (own < 0) | (own >= classes)
    return own.masked_fill(is_outside, 0), is_outside


def _nll_loss(local: LocalCall) -> Any:
    y, target, weight, reduction, ignore_index = local.args[:5]
    axes = _class_axes(local, 0, y.dim() - 1)
    if not axes:
        return NotImplemented
    own, is_outside = _own_targets(local, 0, target, y.shape[-1])
    picked = y.gather(-1, own.unsqueeze(-1)).squeeze(-1).masked_fill(is_outside, 0.0)
    losses = -_all_reduced(picked, local, axes, ReduceOp.SUM)
    counts = target != ignore_index
    if weight is not None:
        losses = losses * weight[target.masked_fill(~counts, 0)]
    losses = losses.masked_fill(~counts, 0.0)
    total = count_targets(target, weight, ignore_index, y.dtype)
    if reduction == _NONE:
        return losses, y.new_zeros(())
    return losses.sum() / total if reduction == _MEAN else losses.sum(), total


def _cross_entropy_backward(local: LocalCall) -> Any:
    g, y, target, weight, reduction, ignore_index = local.args
    axes = _class_axes(local, 1, y.dim() - 1)
    if not axes:
        return NotImplemented
    own, is_outside = _own_targets(local, 1, target, y.shape[-1])
    scale = (target != ignore_index).to(y.dtype)
    if weight is not None:
        scale = scale * weight[target.masked_fill(target == ignore_index, 0)]
    if reduction == _MEAN:
        scale = scale / count_targets(target, weight, ignore_index, y.dtype)
    hits = y.new_zeros(y.shape).scatter(
        -1, own.unsqueeze(-1), (~is_outside).to(y.dtype).unsqueeze(-1))
    return (y.exp() - hits) * (g * scale).unsqueeze(-1)


def _cut_classes(outputs: Callable[[int], Any], which: int) -> Rule:
    """Return the rule of an operator whose input `which` may be cut along its classes."""
    def strategies(operation: Operation) -> Iterator[Strategy]:
        last = operation.inputs[which].ndim - 1
        if operation.inputs[which].ndim > 2:
            return
        inputs = [Shard(last) if i == which else Replicate()
                  for i in range(len(operation.inputs))]
        yield Strategy(outputs(last), tuple(inputs))

    return Rule(strategies)


_RULES = {
    "_log_softmax": _cut_classes(Shard, 0),
    "nll_loss_forward": _cut_classes(lambda last: Replicate(), 0),
    "_cross_entropy_backward": _cut_classes(Shard, 1),
}
_CALLS: dict[str, Callable[[LocalCall], Any]] = {
    "_log_softmax": _log_softmax, "nll_loss_forward": _nll_loss,
    "_cross_entropy_backward": _cross_entropy_backward,
}
