"""Batch norm of a small array in one kernel call, forward and backward. NumPy would take 35 calls.

Functions return None without a kernel: before its first use, and for other dtypes and layouts.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.fast_call import FastCalls
from ...native.target.eager_costs import MAX_SMALL_ELEMENTS
from ..core.operator import Array
from ..native.small_arrays import BATCH_NORM, BATCH_NORM_BACKWARD
from .norm_arrays import create_kernel_parameters

_ndarray = np.ndarray


@lru_cache(maxsize=64)
def _create_running_factors(momentum: float, count: int, dtype: np.dtype) -> tuple[Array, ...]:
    """Return what moves the running statistics: momentum, 1 - momentum, 1 / (count - 1)."""
    factors = momentum, 1 - momentum, 1 / max(count - 1, 1)
    return tuple([np.array(factor, dtype) for factor in factors])


def _can_read(dtype: np.dtype, *arrays: Array) -> bool:
    """Whether a kernel can read the arrays."""
    for array in arrays:
        if array.__class__ is not _ndarray or array.dtype is not dtype \
                or not array.flags.c_contiguous:
            return False
    return True


def _list_sizes(x: Array, columns: bool) -> tuple[int, ...]:
    images, channels = x.shape[:2]
    if columns:
        return images, channels
    elements = x.size // images
    return images, channels, elements // channels, elements


def normalize_small_batch(
    x: Array, weight: Array | None, bias: Array | None, running_mean: Array | None,
    running_var: Array | None, mean: Array, rstd: Array, momentum: float, eps: float
) -> Array | None:
    """Return (x - mean) / deviation * weight + bias; write mean and rstd, move the running ones.

    x is (n, c, ...), mean and rstd are (c,).
    """
    if x.size > MAX_SMALL_ELEMENTS or not KernelPolicy.allowed:
        return None
    columns = x.size == x.shape[0] * x.shape[1]
    is_running = running_mean is not None and running_var is not None
    kernel = BATCH_NORM[weight is not None, bias is not None, is_running, columns][x.dtype]
    parameters = [v for v in (weight, bias) if v is not None]
    moving = [v for v in (running_mean, running_var) if v is not None]
    if not kernel or not _can_read(x.dtype, x, mean, rstd, *parameters, *moving):
        return None
    count = x.size // x.shape[1]
    factors = _create_running_factors(momentum, count, x.dtype) if is_running else ()
    y = np.empty(x.shape, x.dtype)
    FastCalls.call(
        kernel, x, *parameters, *create_kernel_parameters(eps, count, x.dtype), *moving, *factors,
        mean, rstd, y, *_list_sizes(x, columns))
    return y


def differentiate_small_batch(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array] | None:
    """Return the cotangents of x, weight and bias."""
    if x.size > MAX_SMALL_ELEMENTS or not KernelPolicy.allowed:
        return None
    columns = x.size == x.shape[0] * x.shape[1]
    kernel = BATCH_NORM_BACKWARD[weight is not None, columns][x.dtype]
    g = np.ascontiguousarray(g) if g.__class__ is _ndarray else g
    parameters = [v for v in (weight,) if v is not None]
    if not kernel or not _can_read(x.dtype, g, x, mean, rstd, *parameters):
        return None
    share = create_kernel_parameters(0.0, x.size // x.shape[1], x.dtype)[1]
    gx, of_weight, of_bias = (np.empty(s, x.dtype) for s in (x.shape, mean.shape, mean.shape))
    FastCalls.call(kernel, g, x, *parameters, mean, rstd, share, gx, of_weight, of_bias,
                   *_list_sizes(x, columns))
    return gx, of_weight, of_bias
