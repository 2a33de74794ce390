"""Normalization of arrays: statistics, forward and first derivatives, in few passes over memory.

Two shapes: rows (m, n), each normalized (layer and group norm), and channels (n, c, p), each
normalized over images and positions (batch norm). Large arrays go to kernels, or to NumPy in blocks
that stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.fast_call import FastCalls
from ...native.target.eager_costs import (
    MAX_NUMPY_ROW_ELEMENTS, MAX_SMALL_ELEMENTS, NORM_BLOCK_ELEMENTS,
)
from ..core.operator import Array
from ..native.pointwise import try_kernel
from ..native.rows import (
    centered_products, column_products, column_squares, layer_norm, layer_norm_backward,
    layer_norm_tangent, moments, reduce_axes,
)
from ..native.small_arrays import LAYER_NORM, LAYER_NORM_BACKWARD, LAYER_NORM_SUMS


def _iterate_blocks(count: int, elements: int) -> Iterator[slice]:
    step = max(1, NORM_BLOCK_ELEMENTS // max(elements, 1))
    for i in range(0, count, step):
        yield slice(i, i + step)


def _view_as_column(v: Array) -> Array:
    return v[:, None]


def _view_as_rows(x: Array) -> Array:
    """Reshape x (n, c, p) to (n * c, p)."""
    return x.reshape(-1, x.shape[2])


def _spread_over_rows(v: Array, x: Array) -> Array:
    """Broadcast v, (c,) or (n, c), to a column with one number per row of _view_as_rows(x)."""
    return np.ascontiguousarray(np.broadcast_to(v, x.shape[:2])).reshape(-1, 1)


# ------------------------------------------- formulas, which kernels are traced from


def _scale_and_shift(x: Array, scale: Array, shift: Array) -> Array:
    return x * scale + shift


def _combine_linearly(g: Array, x: Array, a: Array, b: Array, c: Array) -> Array:
    return g * a + x * b + c


def _compute_input_tangent(
    t: Array, x: Array, a: Array, b: Array, c: Array, weight: Array
) -> Array:
    return (t * a + x * b + c) * weight


def _compute_parameter_tangent(
    x: Array, scale: Array, shift: Array, weight_t: Array, bias_t: Array
) -> Array:
    return (x * scale + shift) * weight_t + bias_t


def _compute_joint_tangent(
    t: Array, x: Array, a: Array, b: Array, c: Array, weight: Array, scale: Array, shift: Array,
    weight_t: Array, bias_t: Array
) -> Array:
    return (t * a + x * b + c) * weight + (x * scale + shift) * weight_t + bias_t


# ---------------------------------------------------------------------------- rows


@lru_cache(maxsize=64)
def create_kernel_parameters(eps: float, n: int, kind: np.dtype) -> tuple[Array, Array]:
    """Return the parameters of a kernel: eps and 1 / n."""
    return np.array(eps, kind), np.array(1 / n, kind)


def _normalize_small_rows(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array, eps: float
) -> Array | None:
    """rows_forward of a small array in one kernel call; None without a kernel."""
    kernel = LAYER_NORM[weight is not None, bias is not None][x.dtype]
    if not kernel or not KernelPolicy.allowed or x.__class__ is not np.ndarray:
        return None
    if not x.flags.c_contiguous:
        return None
    parts: tuple[Array, ...] = ()
    for v in (weight, bias):
        if v is not None:
            if not v.flags.c_contiguous:
                return None
            parts += (v,)
    rows, n = x.shape
    y = np.empty(x.shape, x.dtype)
    FastCalls.call(
        kernel, x, *parts, *create_kernel_parameters(eps, n, x.dtype), mean, rstd, y, rows, n
    )
    return y


def rows_forward(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array, eps: float
) -> Array:
    """Return (row - mean) / deviation * weight + bias for each row; write mean and rstd.

    For rows of half precision, mean, rstd, weight and bias have the dtype of the computation.
    """
    y = None
    if x.size <= MAX_SMALL_ELEMENTS and x.dtype == mean.dtype:
        y = _normalize_small_rows(x, weight, bias, mean, rstd, eps)
    elif x.size > MAX_NUMPY_ROW_ELEMENTS:
        y = layer_norm(x, weight, bias, mean, rstd, eps)
    if y is not None:
        return y
    x = x.astype(mean.dtype, copy=False)
    y = np.empty(x.shape, x.dtype)
    n = x.dtype.type(x.shape[1])
    ones = np.ones(x.shape[1], x.dtype)
    for part in _iterate_blocks(*x.shape):
        block, result = x[part], y[part]
        m = np.dot(block, ones) / n
        np.subtract(block, _view_as_column(m), out=result)
        r = 1 / np.sqrt(np.einsum("ij,ij->i", result, result) / n + x.dtype.type(eps))
        np.multiply(result, _view_as_column(r), out=result)
        if weight is not None:
            np.multiply(result, weight, out=result)
        if bias is not None:
            np.add(result, bias, out=result)
        mean[part], rstd[part] = m, r
    return y


def _differentiate_small_rows(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array] | None:
    """rows_backward of a small array in two kernel calls; None without kernels."""
    kind = x.dtype
    kernel, sums = LAYER_NORM_BACKWARD[weight is not None][kind], LAYER_NORM_SUMS[kind]
    if not (kernel and sums and KernelPolicy.allowed and g.dtype is kind):
        return None
    g = np.ascontiguousarray(g)
    parts = (g, x) if weight is None else (g, x, weight)
    for v in parts:
        if v.__class__ is not Array or not v.flags.c_contiguous or v.dtype is not kind:
            return None
    rows, n = x.shape
    result, of_weight, of_bias = np.empty(x.shape, kind), np.empty(n, kind), np.empty(n, kind)
    scale = create_kernel_parameters(0.0, n, kind)[1]
    FastCalls.call(kernel, *parts, mean, rstd, scale, result, rows, n)
    FastCalls.call(sums, g, x, mean, rstd, of_weight, of_bias, rows, n)
    return result, of_weight, of_bias


def rows_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Return the cotangents of x, weight and bias."""
    result = None
    if x.size <= MAX_SMALL_ELEMENTS and x.dtype == mean.dtype:
        result = _differentiate_small_rows(g, x, weight, mean, rstd)
    elif x.size > MAX_NUMPY_ROW_ELEMENTS:
        result = layer_norm_backward(g, x, weight, mean, rstd)
    if result is not None:
        return result
    g, x = (v.astype(mean.dtype, copy=False) for v in (g, x))
    new = np.empty(x.shape, x.dtype)
    of_weight, of_bias = np.zeros(x.shape[1], x.dtype), np.zeros(x.shape[1], x.dtype)
    n = x.dtype.type(x.shape[1])
    ones = np.ones(x.shape[1], x.dtype)
    for part in _iterate_blocks(*x.shape):
        share, r = g[part], _view_as_column(rstd[part])
        hat = np.subtract(x[part], _view_as_column(mean[part]))
        hat *= r
        product = share * hat
        of_weight += np.add.reduce(product, 0)
        of_bias += np.add.reduce(share, 0)
        if weight is not None:
            share, product = share * weight, np.multiply(product, weight, out=product)
        along = np.dot(product, ones) / n
        hat *= _view_as_column(along)
        hat += _view_as_column(np.dot(share, ones) / n)
        np.subtract(share, hat, out=hat)
        np.multiply(hat, r, out=new[part])
    return new, of_weight, of_bias


def rows_tangent(
    t: Array | None, x: Array, weight: Array | None, mean: Array, rstd: Array,
    weight_t: Array | None, bias_t: Array | None,
) -> Array:
    """Return the tangent of rows_forward's result, given those of x, weight and bias."""
    rows, n = x.shape
    if x.size > MAX_NUMPY_ROW_ELEMENTS and (
            y := layer_norm_tangent(t, x, weight, mean, rstd, weight_t, bias_t)) is not None:
        return y
    ends = np.zeros(n, x.dtype)
    ones = np.ones(n, x.dtype)
    parameters = (_view_as_column(rstd), _view_as_column(-mean * rstd),
                  ends if weight_t is None else weight_t,
                  ends if bias_t is None else bias_t)
    body: Callable[..., Array]
    operands: tuple[Array, ...]
    if t is None:
        body, operands = _compute_parameter_tangent, (x, *parameters)
    else:
        coefficients = _compute_row_coefficients(t, x, mean, rstd)
        if weight_t is not None or bias_t is not None:
            weight = ones if weight is None else weight
            body, operands = _compute_joint_tangent, (t, x, *coefficients, weight, *parameters)
        elif weight is None:
            body, operands = _combine_linearly, (t, x, *coefficients)
        else:
            body, operands = _compute_input_tangent, (t, x, *coefficients, weight)
    y = try_kernel(body, *operands) if rows * n > MAX_NUMPY_ROW_ELEMENTS else None
    return body(*operands) if y is None else y


def _compute_row_coefficients(
    t: Array, x: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Return (a, b, c) of each row: a t + b x + c is the tangent of the normalized row."""
    sums = centered_products(t, x, mean) if x.size > MAX_NUMPY_ROW_ELEMENTS else None
    if sums is None:
        sums = np.add.reduce(t, 1), np.einsum("ij,ij->i", t, x - _view_as_column(mean))
    n = x.dtype.type(x.shape[1])
    b = -rstd * rstd * rstd * sums[1] / n
    return _view_as_column(rstd), _view_as_column(b), _view_as_column(
        -rstd * sums[0] / n - b * mean
    )


# ------------------------------------------------------------------------- channels


def affine(x: Array, scale: Array, shift: Array) -> Array:
    """Return x * scale + shift for x (n, c, p), and scale and shift (c,) or (n, c)."""
    if x.size > MAX_NUMPY_ROW_ELEMENTS:
        if x.shape[2] == 1 and scale.ndim == 1:
            y = try_kernel(_scale_and_shift, x[:, :, 0], scale, shift)
        else:
            y = try_kernel(
                _scale_and_shift, _view_as_rows(x), _spread_over_rows(scale, x),
                _spread_over_rows(shift, x)
            )
        if y is not None:
            return y.reshape(x.shape)
    y = np.empty(x.shape, x.dtype)
    is_batched = scale.ndim == 2
    for part in _iterate_blocks(len(x), x[:1].size):
        s, t = (scale[part], shift[part]) if is_batched else (scale, shift)
        np.multiply(x[part], s[..., None], out=y[part])
        np.add(y[part], t[..., None], out=y[part])
    return y


def channel_moments(x: Array) -> tuple[Array, Array]:
    """Return each channel's mean and sum of squared deviations from it, for x (n, c, p)."""
    n, _, p = x.shape
    if p == 1:
        flat = x[:, :, 0]
        total = reduce_axes(np.add, flat, (0,), False) if x.size > MAX_NUMPY_ROW_ELEMENTS else None
        mean = (np.add.reduce(flat, 0) if total is None else total) / x.dtype.type(n)
        if x.size > MAX_NUMPY_ROW_ELEMENTS and (squares := column_squares(flat, mean)) is not None:
            return mean, squares
        centred = flat - mean
        return mean, np.einsum("nc,nc->c", centred, centred)
    means, squares = _compute_moments(x)  # of each image's channels
    mean = np.add.reduce(means, 0) / x.dtype.type(n)
    centered = means - mean
    return mean, np.add.reduce(squares, 0) + p * np.add.reduce(centered * centered, 0)


def _compute_moments(x: Array) -> tuple[Array, Array]:
    n, c, p = x.shape
    if x.size > MAX_NUMPY_ROW_ELEMENTS and (result := moments(_view_as_rows(x))) is not None:
        return result[0].reshape(n, c), result[1].reshape(n, c)
    means = np.add.reduce(x, 2) / x.dtype.type(p)
    squares = np.empty(means.shape, x.dtype)
    for part in _iterate_blocks(n, x[:1].size):
        centred = x[part] - means[part][..., None]
        squares[part] = np.einsum("ncp,ncp->nc", centred, centred)
    return means, squares


def channel_sums(g: Array, x: Array, mean: Array) -> tuple[Array, Array]:
    """Return the sums over positions of g and of g * (x - its channel's mean): each (n, c).

    With one position and one mean per channel, they may be summed over images too: (1, c).
    """
    if x.size > MAX_NUMPY_ROW_ELEMENTS and x.shape[2] == 1 and mean.ndim == 1:
        result = column_products(g[:, :, 0], x[:, :, 0], mean)
        if result is not None:
            return result[0][None], result[1][None]
    if x.size > MAX_NUMPY_ROW_ELEMENTS and x.shape[2] > 1:
        result = centered_products(
            _view_as_rows(g), _view_as_rows(x), _spread_over_rows(mean, x).reshape(-1)
        )
        if result is not None:
            return result[0].reshape(x.shape[:2]), result[1].reshape(x.shape[:2])
    of_g = np.add.reduce(g, 2)
    of_product = np.empty(of_g.shape, x.dtype)
    for part in _iterate_blocks(len(x), x[:1].size):
        centre = mean[part] if mean.ndim == 2 else mean
        centred = x[part] - centre[..., None]
        of_product[part] = np.einsum("ncp,ncp->nc", g[part], centred)
    return of_g, of_product


def combine(g: Array, x: Array, a: Array, b: Array, c: Array) -> Array:
    """Return a g + b x + c for arrays (n, c, p) and coefficients (c,) or (n, c)."""
    if x.size > MAX_NUMPY_ROW_ELEMENTS:
        if x.shape[2] == 1 and a.ndim == 1:
            y = try_kernel(_combine_linearly, g[:, :, 0], x[:, :, 0], a, b, c)
        else:
            coefficients = [_spread_over_rows(v, x) for v in (a, b, c)]
            y = try_kernel(_combine_linearly, _view_as_rows(g), _view_as_rows(x), *coefficients)
        if y is not None:
            return y.reshape(x.shape)
    result = np.empty(x.shape, x.dtype)
    is_batched = a.ndim == 2
    for part in _iterate_blocks(len(x), x[:1].size):
        p, q, r = (a[part], b[part], c[part]) if is_batched else (a, b, c)
        y = np.multiply(g[part], p[..., None], out=result[part])
        y += x[part] * q[..., None]
        y += r[..., None]
    return result
