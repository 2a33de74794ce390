"""Normalizations of large arrays with their tangents, in as few passes as without.

The kernels are those of the plain functions, which push tangents through their own formulas.
"""

from __future__ import annotations

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ..core.operator import Array
from ..native.route import native_route
from ..native.rows import are_large_rows, is_row_vector, request_row_kernel, run_row_kernel


def normalize_rows_with_tangent(
    x: Array, t: Array | None, columns: dict[str, Array | None], mean: Array, rstd: Array,
    eps: float
) -> tuple[Array, Array] | None:
    """Normalize rows (m, n); return them and their tangent, and write mean and rstd.

    columns: weight, weight_t, bias and bias_t by name, each (n,) or None. None without a kernel.
    """
    rows, n = x.shape
    has_tangent = tuple(name.removesuffix("_t") for name, v in columns.items()
                        if name.endswith("_t") and v is not None)
    if t is None or not are_large_rows(x, t) \
            or any(columns[name] is None for name in has_tangent) \
            or not all(is_row_vector(v, n, mean.dtype) for v in columns.values()):
        return None
    result = request_row_kernel(
        kernels.LAYER_NORM, x, columns["weight"] is not None, columns["bias"] is not None,
        ("x", *has_tangent, "y"))
    if result is None:
        return None
    pair = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    parts = [v for v in columns.values() if v is not None]
    numbers = np.array((eps, 1 / n), mean.dtype)
    run_row_kernel(result, (x, t, *parts, numbers, numbers[1:], mean, rstd, *pair), rows, n)
    return pair


@native_route
def compute_moments_with_tangents(x: Array, t: Array) -> tuple[Array, Array, Array, Array] | None:
    """Return each row's mean and its tangent, and the sum of squared distances and its tangent."""
    rows, n = x.shape
    if not are_large_rows(x, t):
        return None
    result = request_row_kernel(kernels.MOMENTS, x, "x", "mean", "squares")
    if result is None:
        return None
    share = np.array(1 / n, np.float64 if x.dtype == np.float64 else np.float32)
    mean, mean_t, squares, squares_t = (np.empty(rows, share.dtype) for _ in range(4))
    run_row_kernel(result, (x, t, share, mean, mean_t, squares, squares_t), rows, n)
    return mean, mean_t, squares, squares_t


@native_route
def apply_affine_with_tangents(
    x: Array, t: Array, scale: Array, scale_t: Array, shift: Array, shift_t: Array
) -> tuple[Array, Array] | None:
    """Return x * scale + shift, with a scale and a shift for each row, and its tangent."""
    if not are_large_rows(x, t):
        return None
    result = request_row_kernel(kernels.AFFINE_ROWS, x, "x", "scale", "shift", "y")
    if result is None:
        return None
    pair = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)
    run_row_kernel(result, (x, t, scale, scale_t, shift, shift_t, *pair), *x.shape)
    return pair


def normalize_channels_with_tangent(
    x: Array, t: Array, parameters: tuple[Array | None, ...], eps: float
) -> tuple[Array, Array, Array, Array, Array] | None:
    """Normalize the channels of x (n, c, p).

    parameters: weight, weight_t, bias and bias_t, each (c,) or None. Returns the result, its
    tangent, and the channels' means, 1 / deviations and sums of squares. None without a kernel.
    """
    n, c, p = x.shape
    rows, rows_t = x.reshape(n * c, p), t.reshape(n * c, p)  # (images * channels, positions)
    known = compute_moments_with_tangents(rows, rows_t)
    if known is None:
        return None
    means, means_t, squares, squares_t = (v.reshape(n, c) for v in known)
    mean, mean_t = np.add.reduce(means, 0) / n, np.add.reduce(means_t, 0) / n
    centered, apart_t = means - mean, means_t - mean_t
    total = np.add.reduce(squares, 0) + p * np.add.reduce(centered * centered, 0)
    total_t = np.add.reduce(squares_t, 0) + 2 * p * np.add.reduce(centered * apart_t, 0)
    rstd = 1 / np.sqrt(total / (n * p) + mean.dtype.type(eps))
    rstd_t = -rstd * rstd * rstd * (total_t / (2 * n * p))
    rows_of = _compose_scale_and_shift(mean, mean_t, rstd, rstd_t, parameters)
    pair = apply_affine_with_tangents(
        rows, rows_t, *(np.tile(v, n) for v in rows_of))
    if pair is None:
        return None
    return pair[0].reshape(x.shape), pair[1].reshape(x.shape), mean, rstd, total


def normalize_groups_with_tangent(
    x: Array, t: Array, parameters: tuple[Array | None, ...], groups: int, eps: float
) -> tuple[Array, Array, Array, Array] | None:
    """Normalize the groups of channels of x (n, c, p).

    parameters: weight, weight_t, bias and bias_t, each (c,) or None. Returns the result, its
    tangent, and the groups' means and 1 / deviations, each (n, groups). None without a kernel.
    """
    n, c, p = x.shape
    known = compute_moments_with_tangents(x.reshape(n * groups, -1), t.reshape(n * groups, -1))
    if known is None:
        return None
    mean, mean_t, squares, squares_t = (v.reshape(n, groups) for v in known)
    size = c // groups * p
    rstd = 1 / np.sqrt(squares / size + mean.dtype.type(eps))
    rstd_t = -rstd * rstd * rstd * (squares_t / (2 * size))
    m, m_t, r, r_t = (np.repeat(v, c // groups, 1) for v in (mean, mean_t, rstd, rstd_t))
    rows_of = _compose_scale_and_shift(m, m_t, r, r_t, parameters)
    pair = apply_affine_with_tangents(
        x.reshape(n * c, p), t.reshape(n * c, p), *(v.reshape(-1) for v in rows_of))
    if pair is None:
        return None
    return pair[0].reshape(x.shape), pair[1].reshape(x.shape), mean, rstd


def _compose_scale_and_shift(
    mean: Array, mean_t: Array, rstd: Array, rstd_t: Array, parameters: tuple[Array | None, ...]
) -> tuple[Array, Array, Array, Array]:
    """Return the scale, its tangent, the shift and its tangent of channels (..., c) that are
    normalized and then take weight, weight_t, bias and bias_t."""
    weight, weight_t, bias, bias_t = parameters
    scale, scale_t = (rstd, rstd_t) if weight is None else (rstd * weight, rstd_t * weight)
    scale_t = scale_t if weight_t is None else scale_t + rstd * weight_t
    shift, shift_t = -mean * scale, -mean_t * scale - mean * scale_t
    shift = shift if bias is None else shift + bias
    shift_t = shift_t if bias_t is None else shift_t + bias_t
    return scale, scale_t, shift, shift_t
