"""Group norm of large arrays by kernels; None until a kernel is compiled."""

from __future__ import annotations

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.target.eager_costs import MIN_GROUP_PIXELS, MIN_KERNEL_GROUPS
from ...tensor.dtypes import FLOAT32, FLOAT64
from .rows import run_row_kernel, are_large_rows, request_row_kernel, is_row_vector

Array = np.ndarray


def _compute_sizes(x: Array, groups: int) -> tuple[int, ...]:
    n, c, p = x.shape
    channels = c // groups
    return n, groups, channels, p, channels * p, c * p, c


def _is_served(x: Array, mean: Array, *vectors: Array | None) -> bool:
    return x.dtype in (FLOAT32, FLOAT64) and x.dtype == mean.dtype \
        and mean.size >= MIN_KERNEL_GROUPS and x.shape[2] >= MIN_GROUP_PIXELS \
        and mean.flags.c_contiguous \
        and all(is_row_vector(v, x.shape[1], x.dtype) for v in vectors)


def group_norm(x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array,
               eps: float) -> Array | None:
    """Normalize x (n, c, p) by group; write mean and rstd (n, groups). None without a kernel."""
    if not are_large_rows(x) or not _is_served(x, mean, weight, bias):
        return None
    result = request_row_kernel(kernels.GROUP_NORM, x, weight is not None, bias is not None)
    if result is None:
        return None
    sizes = _compute_sizes(x, mean.shape[1])
    y, numbers = np.empty(x.shape, x.dtype), np.array((eps, 1 / sizes[4]), x.dtype)
    parts = [v for v in (weight, bias) if v is not None]
    run_row_kernel(result, (x, *parts, numbers, numbers[1:], mean, rstd, y), *sizes)
    return y


def group_norm_backward(g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
                        ) -> tuple[Array, Array, Array] | None:
    """Return x's cotangent and the (n, c) sums of g and g * (x - mean); None without a kernel."""
    if not are_large_rows(x, g) or not _is_served(x, mean, weight) or not rstd.flags.c_contiguous:
        return None
    result = request_row_kernel(kernels.GROUP_NORM_BACKWARD, x, weight is not None)
    if result is None:
        return None
    sizes, gx = _compute_sizes(x, mean.shape[1]), np.empty(x.shape, x.dtype)
    of_g, of_product = np.empty((2, *x.shape[:2]), x.dtype)
    parts = () if weight is None else (weight,)
    share = np.array(1 / sizes[4], x.dtype)
    run_row_kernel(result, (g, x, *parts, mean, rstd, share, of_g, of_product, gx), *sizes)
    return gx, of_g, of_product
