"""Pooling kernels for large arrays, for images of any size; functions return None until the kernels
are compiled, and for unsupported arrays.

There is one kernel per dtype and memory order (rows innermost: three, for windows 1, 2 and more
columns apart). Windows are given as `axes(settings)`, one Reach per axis (pool_index_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...native.kernels.pool import lanes_of
from ...native.runtime.fast_call import call_kernel
from ...native.runtime import eager_kernels as kernels
from ...native.runtime.eager_kernels import EagerKernel
from ...native.runtime.thread_pool import threads
from ...native.target.cost_model import MAX_POOL_STRIP_ELEMENTS
from ...native.target.eager_costs import MIN_POOLED_ELEMENTS, POOLED_LANES
from ...tensor.dtypes import FLOAT32
from ..core.operator import Array
from ..native.route import native_route
from . import pool_index_tables
from .pool_index_tables import Pixels, Rows, load_tables


def _fits(x: Array, count: int = 0) -> bool:
    return (
        max(x.size, count) >= MIN_POOLED_ELEMENTS and x.__class__ is np.ndarray and x.size > 0
        and (x.dtype.char in "fd" or x.dtype.itemsize == 2 and x.dtype.kind in "fV")
    )


def _is_channels_last(x: Array, n: int) -> bool:
    """Whether images with n axes are channels last in memory."""
    if x.flags.c_contiguous or x.ndim != n + 2:
        return False
    return x.transpose(0, *range(2, n + 2), 1).flags.c_contiguous


def _lay_out(x: Array, n: int, last: bool) -> Array:
    """Lay out x (images, channels, n axes) with channels or rows innermost."""
    if not last:
        return np.ascontiguousarray(x)
    back = (0, n + 1, *range(1, n + 1))
    return np.ascontiguousarray(x.transpose(0, *range(2, n + 2), 1)).transpose(back)


def _empty(shape: tuple[int, ...], kind: Any, last: bool) -> Array:
    if not last:
        return np.empty(shape, kind)
    n, c, *spatial = shape
    return np.empty((n, *spatial, c), kind).transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def _rows_sizes(x_image: int, width: int, images: int, t: Rows) -> tuple[int, ...]:
    """Return the size arguments of a kernel for rows innermost."""
    height, length = prod(t.output[:-1]), t.output[-1]
    lanes, padded = lanes_of(t.step), t.form[2]
    pitch = t.cells * lanes
    rows = min(height, MAX_POOL_STRIP_ELEMENTS // max(padded, pitch))
    if images * t.blocks * -(-height // rows) < 4 * threads():
        rows = max(1, height * images * t.blocks // (4 * threads()))
    taps = t.tables[0].shape[1]
    return (
        images, -(-height // rows), t.blocks, rows, height, taps, t.window, t.cells, width,
        padded // lanes, length, t.block, t.apart, x_image, height * length, rows * length,
        rows * taps, padded, pitch,
    )


@native_route
def pixel_sizes(shape: tuple[int, ...], t: Pixels) -> tuple[int, ...]:
    """Return the sizes of a channels-last kernel for x's shape."""
    images, channels, *spatial = shape
    rows, columns, pixels = prod(t.output[:-1]), t.output[-1], prod(spatial)
    return (
        images, rows, columns, t.rows.shape[1], t.columns.shape[1], -(-channels // POOLED_LANES),
        channels, pixels, pixels * channels, rows * columns * channels, columns * channels,
        t.columns.shape[1] * channels,
    )


class _Call:
    """A pooling of x over its last n axes: its layout, tables and sizes. False if unsupported.

    Half precision is computed in float32.
    """

    def __init__(self, x: Array, n: int, maxima: bool, axes: Callable, settings: tuple,
                 last: bool | None = None) -> None:
        self.n, self.last = n, _is_channels_last(x, n) if last is None else last
        self.kind = FLOAT32 if x.dtype.itemsize == 2 else x.dtype
        self.input_dtype, self.shape = x.dtype, x.shape
        self.tables: Any = load_tables(self.last, maxima, axes, *settings)
        if self.tables is not None:
            self.output = (*x.shape[:-n], *self.tables.output)
            self.images = prod(x.shape[:-n])

    def __bool__(self) -> bool:
        return self.tables is not None

    def laid_out(self, x: Array) -> Array:
        return _lay_out(x.astype(self.kind, copy=False), self.n, self.last)

    def empty(self, shape: tuple[int, ...], kind: Any = None) -> Array:
        return _empty(shape, kind or self.kind, self.last)

    def function(self, nchw: EagerKernel, nhwc: EagerKernel) -> int | None:
        """Return the address of the kernel for rows innermost, or for channels innermost."""
        if self.last:
            return nhwc.address(self.kind)
        return nchw.address(self.kind, self.tables.step)

    @property
    def steps(self) -> tuple[Array, ...]:
        """The tables, as the kernel takes them."""
        t = self.tables
        if not self.last:
            return t.tables
        channels = self.shape[1]
        return tuple([np.where(a < 0, -1, a * channels) for a in (t.rows, t.columns)])

    def run(self, function: int, *arrays: Array) -> None:
        """Call a kernel with arrays, then sizes."""
        spatial = self.shape[-self.n :]
        sizes = pixel_sizes(self.shape, self.tables) if self.last else _rows_sizes(
            prod(spatial), spatial[-1], self.images, self.tables)
        call_kernel(function, max(prod(self.shape), prod(self.output)), *arrays, *sizes)


def maxima(x: Array, n: int, axes: Callable, *settings: object) -> Array | None:
    """Return the maxima of windows, in x's layout."""
    if not _fits(x) or not (call := _Call(x, n, True, axes, settings)) or not call.tables.whole:
        return None
    function = call.function(kernels.POOL_MAXIMA, kernels.POOL_MAXIMA_NHWC)
    if function is None:
        return None
    y = call.empty(call.output)
    call.run(function, call.laid_out(x), *call.steps, y)
    return y.astype(call.input_dtype, copy=False)


def places(x: Array, n: int, axes: Callable, *settings: object) -> tuple[Array, Array] | None:
    """Return the maxima of windows and their flat image indices; None if one is NaN."""
    if not _fits(x):
        return None
    call = _Call(x, n, True, axes, settings, last=False)
    if not call or not call.tables.whole:
        return None
    function = kernels.POOL_PLACES.address(call.kind, call.tables.step)
    if function is None:
        return None
    y, where = call.empty(call.output), call.empty(call.output, np.int64)
    call.run(function, call.laid_out(x), *call.steps, y, where)
    if y.size and np.isnan(np.maximum.reduce(y, None)):
        return None
    return y.astype(call.input_dtype, copy=False), where


def maxima_with_tangents(
    x: Array, t: Array, n: int, axes: Callable, *settings: object
) -> tuple[Array, Array] | None:
    """Return the maxima of windows and the elements of t at their positions, rows innermost."""
    if not _fits(x) or t.dtype != x.dtype:
        return None
    call = _Call(x, n, True, axes, settings, last=False)
    if not call or not call.tables.whole:
        return None
    function = kernels.POOL_MAXIMA_WITH_TANGENTS.address(call.kind, call.tables.step)
    if function is None:
        return None
    y, yt = call.empty(call.output), call.empty(call.output)
    call.run(function, call.laid_out(x), *call.steps, call.laid_out(t), y, yt)
    return y.astype(call.input_dtype, copy=False), yt.astype(call.input_dtype, copy=False)


def maxima_backward(g: Array, x: Array, y: Array, n: int, axes: Callable, *settings: object
                    ) -> Array | None:
    """Return the windows' cotangents at the positions of their maxima."""
    if not _fits(x) or g.dtype != x.dtype:
        return None
    call = _Call(x, n, True, axes, settings)
    if not call or not call.tables.whole:
        return None
    function = call.function(kernels.POOL_MAXIMA_BACKWARD, kernels.POOL_MAXIMA_BACKWARD_NHWC)
    if function is None:
        return None
    gx, shares = call.empty(x.shape), call.laid_out(g)
    tops = (call.laid_out(y),) if call.last else ()
    call.run(function, call.laid_out(x), *call.steps, *tops, shares, gx)
    return gx.astype(call.input_dtype, copy=False)


def sums(x: Array, n: int, count: int, counts: Callable, axes: Callable, *settings: object
         ) -> Array | None:
    """Return sums of windows divided by the product of `counts(settings)`, one number per axis.

    `count`: the number of elements of the result.
    """
    if not _fits(x, count) or not (call := _Call(x, n, False, axes, settings)):
        return None
    function = call.function(kernels.POOL_SUMS, kernels.POOL_SUMS_NHWC)
    if function is None:
        return None
    by = pool_index_tables.divisors(call.kind, call.tables.form, counts, *settings)
    y = call.empty(call.output)
    call.run(function, call.laid_out(x), *call.steps, *by, y)
    return y.astype(call.input_dtype, copy=False)
