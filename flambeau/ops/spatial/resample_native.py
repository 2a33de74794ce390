"""Images resampled along an axis or looked up at points, in machine code; None until compiled.

Small images use kernels after CALLS_BEFORE_USE calls.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import CallCounts, KernelPolicy
from ...native.runtime.eager_kernels import EagerKernel
from ...native.runtime.fast_call import call_on_threads
from ...native.target.eager_costs import (
    MAX_NUMPY_RESAMPLED_ELEMENTS, MAX_RESAMPLING_FORMS, MAX_RESAMPLING_TAPS,
)
from ...tensor.dtypes import FLOATS
from ..native.route import native_route

Array = np.ndarray


_small_calls = CallCounts(MAX_RESAMPLING_FORMS)


def _can_resample(builder: EagerKernel, x: Array, size: int, *settings: Any) -> bool:
    """Whether a kernel with `size` results pays off for this array, and supports it.

    Calls with few results count.
    """
    if not (x.__class__ is np.ndarray and x.dtype in FLOATS and KernelPolicy.allowed
            and x.flags.c_contiguous):
        return False
    return size > MAX_NUMPY_RESAMPLED_ELEMENTS \
        or _small_calls.should_request((builder, x.dtype, *settings))


@native_route
def resample_axis(
    x: Array, axis: int, indices: Array, weights: Array | None, whole: bool
) -> Array | None:
    """Resample x by indices and weights (taps, out); negative indices are none unless `whole`."""
    taps, count = indices.shape
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    inner = prod(x.shape[axis + 1 :])
    settings = taps, weights is not None, inner == 1, whole
    if taps > MAX_RESAMPLING_TAPS \
            or not _can_resample(kernels.RESAMPLE, x, prod(shape), *settings):
        return None
    kernel = kernels.RESAMPLE.address(x.dtype, *settings)
    if kernel is None:
        return None
    by = () if weights is None else np.ascontiguousarray(weights, x.dtype)
    y = np.empty(shape, x.dtype)
    call_on_threads(
        kernel, x, *np.ascontiguousarray(indices), *by, y,
        prod(x.shape[:axis]), count, inner, x.shape[axis] * inner, count * inner,
    )
    return y


@native_route
def take_pixels(x: Array, places: Array) -> Array | None:
    """Gather x (n, c, pixels) at positions (n, points), all in range: (n, c, points)."""
    n, channels, size = x.shape
    count = places.shape[1]
    if places.dtype != np.int64 \
            or not _can_resample(kernels.TAKE_PIXELS, x, n * channels * count):
        return None
    kernel = kernels.TAKE_PIXELS.address(x.dtype)
    if kernel is None:
        return None
    y = np.empty((n, channels, count), x.dtype)
    call_on_threads(
        kernel, x, np.ascontiguousarray(places), y,
        n, channels, count, size, channels * size, channels * count,
    )
    return y
