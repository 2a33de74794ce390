"""Losses of rows inside of vmap: the rows of all examples, then the sum of each example's."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.registry import Declared
from .reduction import MEAN, NONE


def batch_likelihood(body: Declared) -> None:
    """Declare vmap's rule for the negative log likelihood of rows."""

    @body.batch
    def _(
        batch: Batch, input: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
        ignore_index: float
    ) -> Any:
        if batch.holds(weight):
            return NotImplemented
        x, t = join_rows(batch, input, target)
        loss = body(x, t, weight, NONE, ignore_index)
        return reduce_rows(batch, loss, target, weight, reduction, ignore_index)


def batch_fused(body: Declared) -> None:
    """Declare vmap's rule for the cross entropy of rows."""

    @body.batch
    def _(
        batch: Batch, input: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
        ignore_index: float
    ) -> Any:
        if batch.holds(weight):
            return NotImplemented
        loss, logs = body(*join_rows(batch, input, target), weight, NONE, ignore_index)
        return (reduce_rows(batch, loss, target, weight, reduction, ignore_index),
                logs.reshape(batch.size, *input.shape))


def join_rows(batch: Batch, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of all examples, concatenated, and their targets."""
    x, t = batch.expand(input), batch.expand(target)
    return (x, t) if target.dim() == 0 else (x.flatten(0, 1), t.flatten(0, 1))


def _compute_totals(
    batch: Batch, target: Tensor, weight: Tensor | None, ignore_index: float
) -> Tensor:
    """What each example's loss is divided by for a mean: its rows that count, or their weights."""
    t = batch.expand(target)
    valid = t != ignore_index
    factors = valid if weight is None else weight[t * valid] * valid
    return factors.reshape(batch.size, -1).sum(1)


def reduce_rows(
    batch: Batch, loss: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: float
) -> Tensor:
    """Return each example's losses per row, or their sum or mean."""
    loss = loss.reshape(batch.size, *target.shape)
    if reduction == NONE:
        return loss
    total = loss.reshape(batch.size, -1).sum(1)
    return total / _compute_totals(batch, target, weight, ignore_index).to(total.dtype) \
        if reduction == MEAN else total


def shares_of(
    batch: Batch, g: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: float
) -> tuple[Tensor, Tensor]:
    """Return each row's cotangent and target."""
    share, t = batch.expand(g), batch.expand(target)
    if reduction == MEAN:
        share = share / _compute_totals(batch, target, weight, ignore_index).to(share.dtype)
    if reduction != NONE:
        share = share.reshape(-1, *[1] * target.dim()).expand(t.shape)
    return (share, t) if target.dim() == 0 else (share.flatten(0, 1), t.flatten(0, 1))
