"""Losses, attention, convolutions and poolings: each sample may lie in another process."""

from __future__ import annotations

from collections.abc import Iterator

from ..placement_types import Partial, Placement, Replicate, Shard
from ..propagation import Operation, Rule, Strategy
from .pointwise import cut_operands

_NONE, _MEAN = 0, 1
_SUMS: dict[int, Placement] = {_MEAN: Partial("avg"), 2: Partial("sum")}


def _create_loss(position: int) -> Rule:
    """Return the rule of a pointwise loss with the number of its reduction at a position."""
    def strategies(operation: Operation) -> Iterator[Strategy]:
        reduction = operation.argument(position, "reduction", _MEAN)
        first = operation.inputs[0]
        for strategy in cut_operands(operation):
            assert isinstance(strategy.outputs, Shard)
            dim = strategy.outputs.dim
            if reduction == _NONE:
                yield strategy
            elif reduction != _MEAN or operation.divides(first.shape[dim], dim, first):
                yield Strategy(_SUMS[reduction], strategy.inputs)

    return Rule(strategies)


def _nll(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the batch, and the pair of losses and total weight that they give."""
    x, target = operation.inputs[:2]
    reduction = operation.argument(3, "reduction", _MEAN)
    rest = tuple(Replicate() for _ in operation.inputs[2:])
    if x.ndim != target.ndim + 1 or x.ndim < 2:
        return
    for dim in range(x.ndim):
        if dim != 1:
            own = dim - (dim > 1)
            result = Shard(own) if reduction == _NONE else _SUMS[reduction]
            total = Replicate() if reduction != 2 else Partial()
            yield Strategy((result, total), (Shard(dim), Shard(own), *rest))


def _nll_backward(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the batch in the gradient of nll_loss."""
    g, target = operation.inputs[:2]
    rest = tuple(Replicate() for _ in operation.inputs[2:])
    for own in range(target.ndim):
        first = Shard(own) if g.ndim else Replicate()
        yield Strategy(Shard(own + (own > 0)), (first, Shard(own), *rest))


def _cross_entropy_backward(operation: Operation) -> Iterator[Strategy]:
    g, y, target = operation.inputs[:3]
    rest = tuple(Replicate() for _ in operation.inputs[3:])
    for dim in range(y.ndim):
        if dim != 1 and y.ndim == target.ndim + 1:
            own = dim - (dim > 1)
            first = Shard(own) if g.ndim else Replicate()
            yield Strategy(Shard(dim), (first, Shard(dim), Shard(own), *rest))


def _attention(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of batch and heads of q, k and v."""
    q = operation.inputs[0]
    batched = q.ndim - 2
    for dim in range(batched):
        if all(spec.ndim == q.ndim and spec.shape[dim] == q.shape[dim]
               for spec in operation.inputs[:3]):
            inputs = [Shard(dim) if spec.ndim == q.ndim and spec.shape[dim] == q.shape[dim]
                      else Replicate() for spec in operation.inputs]
            yield Strategy(Shard(dim), tuple(inputs))


def _batch_only(operation: Operation) -> Iterator[Strategy]:
    """Yield the cut of the first axis of a batch of samples; weights stay whole."""
    rest = tuple(Replicate() for _ in operation.inputs[1:])
    yield Strategy(Shard(0), (Shard(0), *rest))


def _all_batched(operation: Operation) -> Iterator[Strategy]:
    yield Strategy(Shard(0), (Shard(0),) * len(operation.inputs))


def _weight_gradient(operation: Operation) -> Iterator[Strategy]:
    yield Strategy(Partial(), (Shard(0), Shard(0)))


RULES: dict[str, Rule] = {
    **{name: _create_loss(2) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
                                          "soft_margin_loss")},
    "binary_cross_entropy": _create_loss(3), "binary_cross_entropy_with_logits": _create_loss(4),
    "nll_loss_forward": Rule(_nll), "nll_loss2d_forward": Rule(_nll),
    "_nll_loss_backward": Rule(_nll_backward),
    "_cross_entropy_backward": Rule(_cross_entropy_backward),
    "_attention": Rule(_attention), "_attention_backward": Rule(_attention),
    "convolution": Rule(_batch_only), "_transposed_convolution": Rule(_batch_only),
    "_convolution_weight": Rule(_weight_gradient),
    **{f"{kind}_pool{n}d{end}": Rule(_all_batched) for n in (1, 2, 3)
       for kind, end in (("max", "_with_indices"), ("avg", ""))},
}
