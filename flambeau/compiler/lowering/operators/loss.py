"""Losses with class indices, which are compared with positions along the class axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.promotion import compute_dtype
from ....ops.loss.reduction import MEAN, NONE
from ..numpy.node_builders import iota
from ..numpy.symbolic_array import Symbol, call_ufunc, wrap_node
from ..registry import lowering, require
from .softmax import log_probabilities, round_and_widen


def _find_class_axis(x: Symbol) -> int:
    return 0 if x.ndim == 1 else 1


def _is_target(target: Symbol, shape: tuple[int, ...], axis: int) -> Symbol:
    """Mask the target class of each row; all false if the target is not a class."""
    t = np.expand_dims(target.astype(np.int64, copy=False), axis)
    return call_ufunc(np.equal, (wrap_node(iota(shape, axis)), t))


def _weigh_rows(
    target: Symbol, weight: Symbol | None, ignore_index: int, kind: np.dtype
) -> Symbol:
    """The weight of each row; 0 for ignored ones."""
    t = target.astype(np.int64, copy=False)
    is_counted = call_ufunc(np.not_equal, (t, ignore_index))
    if weight is None:
        return is_counted.astype(kind)
    return np.where(
        is_counted, weight.astype(kind, copy=False)[np.where(is_counted, t, 0)], kind.type(0)
    )


def _lower_nll(
    x: Symbol, target: Symbol, weight: Symbol | None, reduction: int,
    ignore_index: int, kind: np.dtype,
) -> Symbol:
    axis, type = _find_class_axis(x), x.dtype.type
    selected = np.sum(np.where(_is_target(target, x.shape, axis), x, type(0)), axis)
    factors = _weigh_rows(target, weight, ignore_index, x.dtype)
    within = 0 <= ignore_index < x.shape[axis]
    if weight is not None or within:
        selected = np.where(call_ufunc(np.equal, (factors, 0)), type(0), selected * factors)
    if reduction == NONE:
        return (-selected).astype(kind)
    y = -np.sum(selected)
    return (y / np.sum(factors) if reduction == MEAN else y).astype(kind)


def _scale_cotangent(
    g: Symbol, target: Symbol, weight: Symbol | None, reduction: int,
    ignore_index: int, kind: np.dtype,
) -> Symbol:
    """The cotangent of each row's negated log-probability."""
    factors = _weigh_rows(target, weight, ignore_index, kind)
    g = g.astype(kind, copy=False)
    if reduction == MEAN:
        total = np.sum(factors)
        g = np.where(call_ufunc(np.equal, (total, 0)), kind.type(0), g / total)
    return g * factors


@lowering("_nll_loss", "_nll_loss2d")
def _nll_loss(
    input: Symbol, target: Symbol, weight: Any, reduction: int, ignore_index: int
) -> Symbol:
    return _lower_nll(round_and_widen(input), target, weight, reduction, ignore_index, input.dtype)


@lowering("_cross_entropy", "_cross_entropy2d")
def _cross_entropy(
    input: Symbol, target: Symbol, weight: Any, reduction: int, ignore_index: int
) -> tuple[Symbol, Symbol]:
    y = log_probabilities(round_and_widen(input), _find_class_axis(input))
    loss = _lower_nll(y, target, weight, reduction, ignore_index, input.dtype)
    return loss, y.astype(input.dtype)


@lowering("_nll_loss_backward")
def _nll_loss_backward(
    g: Symbol, target: Symbol, weight: Any, shape: tuple[int, ...], reduction: int,
    ignore_index: int,
) -> Symbol:
    axis = 0 if len(shape) == 1 else 1
    c = _scale_cotangent(g, target, weight, reduction, ignore_index, compute_dtype(g.dtype))
    hits = _is_target(target, shape, axis)
    return np.where(hits, -np.expand_dims(c, axis), c.dtype.type(0)).astype(g.dtype)


@lowering("_cross_entropy_backward")
def _cross_entropy_backward(
    share: Symbol, logs: Symbol, target: Symbol, weight: Any, reduction: int,
    ignore_index: int,
) -> Symbol:
    y, axis = round_and_widen(logs), _find_class_axis(logs)
    c = _scale_cotangent(share, target, weight, reduction, ignore_index, y.dtype)
    hits = _is_target(target, y.shape, axis).astype(y.dtype)
    return ((np.exp(y) - hits) * np.expand_dims(c, axis)).astype(logs.dtype)


@lowering("_binary_cross_entropy")
def _binary_cross_entropy(
    input: Symbol, target: Symbol, weight: Any, reduction: int
) -> Symbol:
    x, t = round_and_widen(input), round_and_widen(target)
    for values in (x, t):
        require(np.all((values >= 0) & (values <= 1)))
    low = x.dtype.type(-100)
    y = (t - 1) * np.maximum(np.log1p(-x), low) - t * np.maximum(np.log(x), low)
    y = y if weight is None else y * weight
    if reduction == NONE:
        return y.astype(input.dtype)
    return (np.mean(y) if reduction == MEAN else np.sum(y)).astype(input.dtype)
