"""Softmax, log-softmax, logsumexp and their derivatives: reductions along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.promotion import compute_dtype
from ..numpy.reductions import normalize_axes
from ..numpy.symbolic_array import Symbol
from ..registry import lowering


def round_and_widen(x: Symbol, dtype: Any = None) -> Symbol:
    """Round to `dtype`, if given, and convert to the dtype of the computation."""
    x = x if dtype is None else x.astype(dtype.numpy, copy=False)
    return x.astype(compute_dtype(x.dtype), copy=False)


def _view_at_least_1d(x: Symbol) -> Symbol:
    return x if x.ndim else x.reshape(1)


def compute_softmax(x: Symbol, axis: int) -> Symbol:
    """Return exp(x - max) divided by its sum along the axis."""
    e = np.exp(x - np.max(x, axis, keepdims=True))
    return e / np.sum(e, axis, keepdims=True)


def log_probabilities(x: Symbol, axis: int) -> Symbol:
    """Return x - max - log(sum(exp(x - max))) along the axis."""
    y = x - np.max(x, axis, keepdims=True)
    return y - np.log(np.sum(np.exp(y), axis, keepdims=True))


@lowering("softmax")
def _softmax(input: Symbol, dim: int, dtype: Any = None) -> Symbol:
    kind = input.dtype if dtype is None else dtype.numpy
    x = _view_at_least_1d(round_and_widen(input, dtype))
    y = compute_softmax(x, dim) if x.size else x
    return y.reshape(input.shape).astype(kind)


@lowering("log_softmax")
def _log_softmax(input: Symbol, dim: int, dtype: Any = None) -> Symbol:
    kind = input.dtype if dtype is None else dtype.numpy
    x = _view_at_least_1d(round_and_widen(input, dtype))
    y = log_probabilities(x, dim) if x.size else x
    return y.reshape(input.shape).astype(kind)


def _cast_result(y: Symbol, output: Symbol, input_dtype: Any) -> Symbol:
    return y.astype(output.dtype if input_dtype is None else input_dtype.numpy)


@lowering("_softmax_backward_data")
def _softmax_backward(
    grad_output: Symbol, output: Symbol, dim: int, input_dtype: Any
) -> Symbol:
    if not output.ndim:
        return np.zeros_like(output)
    g, y = round_and_widen(grad_output), round_and_widen(output)
    share = g * y
    return _cast_result(share - y * np.sum(share, dim, keepdims=True), output, input_dtype)


@lowering("_log_softmax_backward_data")
def _log_softmax_backward(
    grad_output: Symbol, output: Symbol, dim: int, input_dtype: Any
) -> Symbol:
    if not output.ndim:
        return np.zeros_like(output)
    g, y = round_and_widen(grad_output), round_and_widen(output)
    return _cast_result(g - np.exp(y) * np.sum(g, dim, keepdims=True), output, input_dtype)


@lowering("logsumexp")
def _logsumexp(input: Symbol, dim: Any, keepdim: bool = False) -> Symbol:
    x = round_and_widen(input if input.dtype.kind in "fV" else input.astype(np.float32))
    axes = normalize_axes(dim if dim not in ((), []) else None, x.ndim)
    if not x.size:
        return np.log(np.sum(np.exp(x), axes, keepdims=keepdim)).astype(input.dtype)
    top = np.max(x, axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)  # a row of -inf only, or one with an inf
    total = np.log(np.sum(np.exp(x - top), axes, keepdims=True)) + top
    remaining = [n for i, n in enumerate(x.shape) if i not in axes]
    y = total if keepdim else total.reshape(remaining)
    return y.astype(input.dtype if input.dtype.kind in "fV" else np.float32)
