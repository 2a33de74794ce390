"""Pooling kernels for images of any size; functions return None until the kernels are compiled, and
for unsupported arrays. Small arrays use kernels after CALLS_BEFORE_USE calls.

There is one kernel per dtype and memory order (rows innermost: three, for windows 1, 2 and more
columns apart). Windows are given as `axes(settings)`, one Reach per axis (pool_index_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....native.runtime import eager_kernels as kernels
from ....native.runtime.background_jit import CallCounts
from ....native.runtime.eager_kernels import EagerKernel
from ....native.runtime.fast_call import call_kernel
from ....native.runtime.thread_pool import threads
from ....native.target.cost_model import MAX_POOL_STRIP_ELEMENTS
from ....native.target.eager_costs import (
    MAX_POOLING_FORMS, MAX_STATIC_SHAPES, MIN_POOLED_ELEMENTS, POOLED_LANES, lanes_of,
)
from ....tensor.dtypes import FLOAT32
from ...core.operator import Array
from ...native.route import native_route
from . import pool_index_tables
from .pool_index_tables import Pixels, Rows, load_tables

_small_calls = CallCounts(MAX_POOLING_FORMS)  # by pooling and dtype


def _can_pool(x: Array, pooling: str, count: int = 0) -> bool:
    """Whether a kernel pays off for this array, with `count` results, and supports it.

    `pooling`: the kind of pooling, whose calls on small arrays are counted.
    """
    if x.__class__ is not np.ndarray or not x.size or not (
            x.dtype.char in "fd" or x.dtype.itemsize == 2 and x.dtype.kind in "fV"):
        return False
    is_large = max(x.size, count) >= MIN_POOLED_ELEMENTS
    return is_large or _small_calls.should_request((pooling, x.dtype))


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


def _allocate(shape: tuple[int, ...], kind: Any, last: bool) -> Array:
    if not last:
        return np.empty(shape, kind)
    n, c, *spatial = shape
    return np.empty((n, *spatial, c), kind).transpose(0, len(shape) - 1, *range(1, len(shape) - 1))


def _list_row_sizes(x_image: int, width: int, images: int, t: Rows) -> tuple[int, ...]:
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
def list_pixel_sizes(shape: tuple[int, ...], t: Pixels) -> tuple[int, ...]:
    """Return the sizes of a channels-last kernel for x's shape."""
    images, channels, *spatial = shape
    rows, columns, pixels = prod(t.output[:-1]), t.output[-1], prod(spatial)
    return (
        images, rows, columns, t.rows.shape[1], t.columns.shape[1], -(-channels // POOLED_LANES),
        channels, pixels, pixels * channels, rows * columns * channels, columns * channels,
        t.columns.shape[1] * channels,
    )


class _Plan:
    """A pooling of arrays of one shape over their last n axes: its layout, tables and sizes.

    Half precision is computed in float32.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, n: int, tables: Rows | Pixels,
                 last: bool) -> None:
        self.n, self.last = n, last
        self.dtype, self.kind = dtype, FLOAT32 if dtype.itemsize == 2 else dtype
        self.output = (*shape[:-n], *tables.output)
        self.work = max(prod(shape), prod(self.output))
        self.form, self.whole = tables.form, tables.whole
        if isinstance(tables, Pixels):
            channels = shape[1]
            self.step = None
            self.steps = tuple([
                np.where(a < 0, -1, a * channels) for a in (tables.rows, tables.columns)])
            self.sizes = list_pixel_sizes(shape, tables)
        else:
            spatial = shape[-n:]
            self.step, self.steps = tables.step, tables.tables
            self.sizes = _list_row_sizes(prod(spatial), spatial[-1], prod(shape[:-n]), tables)

    def lay_out(self, x: Array) -> Array:
        """Return x in the layout and dtype that the kernel reads."""
        if x.dtype is self.kind and not self.last and x.flags.c_contiguous:
            return x
        return _lay_out(x.astype(self.kind, copy=False), self.n, self.last)

    def allocate(self, shape: tuple[int, ...], kind: Any = None) -> Array:
        return _allocate(shape, kind or self.kind, self.last)

    def narrow(self, y: Array) -> Array:
        """Return a result in the input's dtype."""
        return y if y.dtype is self.dtype else y.astype(self.dtype, copy=False)

    def find_kernel(self, nchw: EagerKernel, nhwc: EagerKernel | None) -> int | None:
        """Return the address of the kernel for rows innermost, or for channels innermost."""
        if self.last and nhwc is not None:
            return nhwc.address(self.kind)
        return nchw.address(self.kind, self.step)

    def run(self, function: int, *arrays: Array) -> None:
        """Call a kernel with arrays, then sizes."""
        call_kernel(function, self.work, *arrays, *self.sizes)


@lru_cache(maxsize=MAX_STATIC_SHAPES)
def _plan_pooling(
    shape: tuple[int, ...], dtype: np.dtype, n: int, maxima: bool, last: bool, thread_count: int,
    axes: Callable, *settings: object
) -> _Plan | None:
    """Return a plan, cached; None if the windows are unsupported, or of maxima if one is empty.

    `thread_count`: the threads that the sizes were chosen for.
    """
    tables = load_tables(last, maxima, axes, *settings)
    if tables is None or maxima and not tables.whole:
        return None
    return _Plan(shape, dtype, n, tables, last)


class _Windows(NamedTuple):
    """Windows over the last n axes: `axes(*settings)` gives the Reach of each axis."""

    n: int
    axes: Callable
    settings: tuple[object, ...]

    def plan(self, x: Array, maxima: bool, last: bool) -> _Plan | None:
        """Plan a pooling of x; `last`: with channels innermost."""
        return _plan_pooling(
            x.shape, x.dtype, self.n, maxima, last, threads(), self.axes, *self.settings)

    def plan_maxima(
        self, x: Array, pooling: str, nchw: EagerKernel, nhwc: EagerKernel | None = None
    ) -> tuple[_Plan, int] | None:
        """Return a plan and the address of its kernel; None if no kernel pays off or is ready.

        Without a kernel for channels innermost, rows are.
        """
        if not _can_pool(x, pooling):
            return None
        plan = self.plan(x, True, nhwc is not None and _is_channels_last(x, self.n))
        address = None if plan is None else plan.find_kernel(nchw, nhwc)
        return None if plan is None or address is None else (plan, address)


def max_windows(x: Array, n: int, axes: Callable, *settings: object) -> Array | None:
    """Return the maxima of windows, in x's layout."""
    windows = _Windows(n, axes, settings)
    planned = windows.plan_maxima(x, "maxima", kernels.POOL_MAXIMA, kernels.POOL_MAXIMA_NHWC)
    if planned is None:
        return None
    plan, kernel = planned
    y = plan.allocate(plan.output)
    plan.run(kernel, plan.lay_out(x), *plan.steps, y)
    return plan.narrow(y)


def max_windows_with_indices(x: Array, n: int, axes: Callable,
                             *settings: object) -> tuple[Array, Array] | None:
    """Return the maxima of windows and their flat image indices; None if one is NaN."""
    planned = _Windows(n, axes, settings).plan_maxima(x, "places", kernels.POOL_PLACES)
    if planned is None:
        return None
    plan, kernel = planned
    y, indices = plan.allocate(plan.output), plan.allocate(plan.output, np.int64)
    plan.run(kernel, plan.lay_out(x), *plan.steps, y, indices)
    if y.size and np.isnan(np.maximum.reduce(y, None)):
        return None
    return plan.narrow(y), indices


def max_windows_with_tangents(
    x: Array, t: Array, n: int, axes: Callable, *settings: object
) -> tuple[Array, Array] | None:
    """Return the maxima of windows and the elements of t at their positions, rows innermost."""
    if t.dtype != x.dtype:
        return None
    planned = _Windows(n, axes, settings).plan_maxima(
        x, "tangents", kernels.POOL_MAXIMA_WITH_TANGENTS)
    if planned is None:
        return None
    plan, kernel = planned
    y, yt = plan.allocate(plan.output), plan.allocate(plan.output)
    plan.run(kernel, plan.lay_out(x), *plan.steps, plan.lay_out(t), y, yt)
    return plan.narrow(y), plan.narrow(yt)


def max_windows_backward(g: Array, x: Array, y: Array, n: int, axes: Callable, *settings: object
                         ) -> Array | None:
    """Return the windows' cotangents at the positions of their maxima."""
    if g.dtype != x.dtype:
        return None
    planned = _Windows(n, axes, settings).plan_maxima(
        x, "backward", kernels.POOL_MAXIMA_BACKWARD, kernels.POOL_MAXIMA_BACKWARD_NHWC)
    if planned is None:
        return None
    plan, kernel = planned
    gx, cotangents = plan.allocate(x.shape), plan.lay_out(g)
    maxima = (plan.lay_out(y),) if plan.last else ()
    plan.run(kernel, plan.lay_out(x), *plan.steps, *maxima, cotangents, gx)
    return plan.narrow(gx)


def sum_windows(x: Array, n: int, count: int, counts: Callable, axes: Callable, *settings: object
                ) -> Array | None:
    """Return sums of windows divided by the product of `counts(settings)`, one number per axis.

    `count`: the number of elements of the result.
    """
    if not _can_pool(x, "sums", count):
        return None
    plan = _Windows(n, axes, settings).plan(x, False, _is_channels_last(x, n))
    if plan is None:
        return None
    kernel = plan.find_kernel(kernels.POOL_SUMS, kernels.POOL_SUMS_NHWC)
    if kernel is None:
        return None
    divisors = pool_index_tables.compute_divisors(plan.kind, plan.form, counts, *settings)
    y = plan.allocate(plan.output)
    plan.run(kernel, plan.lay_out(x), *plan.steps, *divisors, y)
    return plan.narrow(y)
