"""Lowering of layer, batch and group normalization. Statistics that the operators write to
arguments become extra results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ops.core.promotion import compute_dtype
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering

Maybe = Symbol | None


def _cast_to(kind: np.dtype, *arrays: Maybe) -> list[Any]:
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def _compute_moments(x: Symbol, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """Return the mean, sum of squared deviations, 1 / standard deviation, and x - mean."""
    count = x.dtype.type(math.prod(x.shape[i] for i in axes))
    mean = np.sum(x, axes, keepdims=True) / count
    centred = x - mean
    squares = np.sum(centred * centred, axes, keepdims=True)
    return mean, squares, 1 / np.sqrt(squares / count + x.dtype.type(eps)), centred


def _scale_and_shift(y: Symbol, weight: Maybe, bias: Maybe) -> Symbol:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# ------------------------------------------------------------------------------- layers


@lowering("_layer_norm")
def _layer_norm(
    input: Symbol, weight: Maybe, bias: Maybe, save_mean: Symbol,
    save_rstd: Symbol, n: int, eps: float,
) -> tuple[Symbol, ...]:
    if not input.size:
        return input, save_mean, save_rstd
    x, w, b = _cast_to(save_mean.dtype, input, weight, bias)
    mean, _, rstd, centred = _compute_moments(x, tuple(range(x.ndim - n, x.ndim)), eps)
    y = _scale_and_shift(centred * rstd, w, b).astype(input.dtype)
    return y, mean.reshape(save_mean.shape), rstd.reshape(save_rstd.shape)


@lowering("_layer_norm_backward")
def _layer_norm_backward(
    g: Symbol, input: Symbol, weight: Maybe, mean: Symbol, rstd: Symbol, n: int
) -> tuple[Symbol, ...]:
    kind = input.dtype if weight is None else weight.dtype
    lead = input.ndim - n
    if not input.size:
        zeros = np.sum(np.zeros_like(input, dtype=kind), tuple(range(lead)))
        return np.zeros_like(input), zeros, zeros
    share, x, w = _cast_to(mean.dtype, g, input, weight)
    shape = (*x.shape[:lead], *(1,) * n)
    mean, rstd = mean.reshape(shape), rstd.reshape(shape)
    axes, rows = tuple(range(lead, x.ndim)), tuple(range(lead))
    hat = (x - mean) * rstd
    product = share * hat
    of_weight, of_bias = np.sum(product, rows), np.sum(share, rows)
    if w is not None:
        share, product = share * w, product * w
    count = x.dtype.type(math.prod(x.shape[lead:]))
    along = np.sum(product, axes, keepdims=True) / count
    gradient = (share - (hat * along + np.sum(share, axes, keepdims=True) / count)) * rstd
    return gradient.astype(input.dtype), of_weight.astype(kind), of_bias.astype(kind)


# ------------------------------------------------------------------------------- batches


def _view_by_channel(v: Maybe, rank: int) -> Any:
    return None if v is None else v.reshape((1, -1, *(1,) * (rank - 2)))


def _list_batch_axes(x: Symbol) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


@lowering("_batch_norm")
def _batch_norm(
    input: Symbol, weight: Maybe, bias: Maybe, running_mean: Maybe, running_var: Maybe,
    save_mean: Symbol, save_rstd: Symbol, momentum: float, eps: float,
) -> tuple[Maybe, ...]:
    if not input.size:
        return input, running_mean, running_var, save_mean, save_rstd
    x, w, b = _cast_to(
        save_mean.dtype, input, *(_view_by_channel(v, input.ndim) for v in (weight, bias))
    )
    axes = _list_batch_axes(x)
    mean, squares, rstd, _ = _compute_moments(x, axes, eps)
    count = math.prod(x.shape[i] for i in axes)
    flat = save_mean.shape
    moved = []
    for running, new in ((running_mean, mean), (running_var, squares / max(count - 1, 1))):
        moved.append(None if running is None else
                     ((1 - momentum) * running + momentum * new.reshape(flat)).astype(
                         running.dtype))
    scale = rstd if w is None else rstd * w
    shift = -mean * scale if b is None else b - mean * scale
    y = (x * scale + shift).astype(input.dtype)
    return y, *moved, mean.reshape(flat), rstd.reshape(flat)


@lowering("_batch_norm_backward")
def _batch_norm_backward(
    g: Symbol, input: Symbol, weight: Maybe, mean: Symbol, rstd: Symbol
) -> tuple[Symbol, ...]:
    kind = input.dtype if weight is None else weight.dtype
    axes = _list_batch_axes(input)
    if not input.size:
        zeros = np.zeros_like(mean, dtype=kind)
        return np.zeros_like(input), zeros, zeros
    share, x, w = _cast_to(mean.dtype, g, input, weight)
    mean, rstd, w = (_view_by_channel(v, x.ndim) for v in (mean, rstd, w))
    count = x.dtype.type(math.prod(x.shape[i] for i in axes))
    of_g = np.sum(share, axes, keepdims=True)
    centred = x - mean
    of_product = np.sum(share * centred, axes, keepdims=True)
    a = rstd if w is None else rstd * w
    slope = rstd * rstd * of_product / count
    gradient = ((share - of_g / count - centred * slope) * a).astype(input.dtype)
    return gradient, (of_product * rstd).reshape(-1).astype(kind), of_g.reshape(-1).astype(kind)


@lowering("_batch_norm_running")
def _batch_norm_running(
    input: Symbol, weight: Maybe, bias: Maybe, running_mean: Symbol,
    running_var: Symbol, eps: float,
) -> Symbol:
    kind = compute_dtype(input.dtype)
    x, w, b, mean, var = _cast_to(kind, input, weight, bias, running_mean, running_var)
    rstd = 1 / np.sqrt(var + kind.type(eps))
    scale = rstd if w is None else rstd * w
    shift = -mean * scale if b is None else b - mean * scale
    y = x * _view_by_channel(scale, x.ndim) + _view_by_channel(shift, x.ndim)
    return y.astype(input.dtype)


# ------------------------------------------------------------------------------- groups


def _split_groups(x: Symbol, groups: int) -> Symbol:
    """Reshape (n, c, ...) to (n, groups, c / groups, positions)."""
    return x.reshape((x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:])))


def _view_by_group(v: Maybe, groups: int) -> Any:
    return None if v is None else v.reshape((1, groups, -1, 1))


@lowering("_group_norm")
def _group_norm(
    input: Symbol, weight: Maybe, bias: Maybe, save_mean: Symbol,
    save_rstd: Symbol, groups: int, eps: float,
) -> tuple[Symbol, ...]:
    if not input.size:
        return input, save_mean, save_rstd
    x, w, b = _cast_to(save_mean.dtype, input, weight, bias)
    mean, _, rstd, centred = _compute_moments(_split_groups(x, groups), (2, 3), eps)
    y = _scale_and_shift(centred * rstd, _view_by_group(w, groups), _view_by_group(b, groups))
    y = y.reshape(input.shape).astype(input.dtype)
    return y, mean.reshape(save_mean.shape), rstd.reshape(save_rstd.shape)


@lowering("_group_norm_backward")
def _group_norm_backward(
    g: Symbol, input: Symbol, weight: Maybe, mean: Symbol, rstd: Symbol,
    groups: int,
) -> tuple[Symbol, ...]:
    kind, c = input.dtype if weight is None else weight.dtype, input.shape[1]
    if not input.size:
        zeros = wrap_node(mean.node)[:0, 0]
        zeros = np.zeros_like(zeros, dtype=kind, shape=(c,))
        return np.zeros_like(input), zeros, zeros
    share, x, w = _cast_to(mean.dtype, g, input, weight)
    share, x = _split_groups(share, groups), _split_groups(x, groups)
    mean, rstd = (v.reshape((*v.shape, 1, 1)) for v in (mean, rstd))
    hat = (x - mean) * rstd
    product = share * hat
    of_weight, of_bias = np.sum(product, (0, 3)), np.sum(share, (0, 3))
    if w is not None:
        share, product = share * _view_by_group(w, groups), product * _view_by_group(w, groups)
    count = x.dtype.type(x.shape[2] * x.shape[3])
    along = np.sum(product, (2, 3), keepdims=True) / count
    gradient = (share - (hat * along + np.sum(share, (2, 3), keepdims=True) / count)) * rstd
    return (gradient.reshape(input.shape).astype(input.dtype), of_weight.reshape(-1).astype(kind),
            of_bias.reshape(-1).astype(kind))
