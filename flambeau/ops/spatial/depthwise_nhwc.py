"""Depthwise convolutions of images whose channels are innermost in memory, by kernels of any size.

What has no kernel, or none yet, is None: then rows are put innermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.fast_call import call_kernel
from ...native.target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..core.operator import Array
from .pooling.pool_index_tables import Pixels, Reach, build_pixel_tables, list_windows
from .pooling.pool_native import list_pixel_sizes

if TYPE_CHECKING:
    from .conv_reference import Window


def fits(x: Array, w_shape: Sequence[int], groups: int) -> bool:
    """Return whether channels are innermost, with one output channel each."""
    return (
        x.ndim == 4 and w_shape[0] == groups and not x.flags.c_contiguous
        and x.transpose(0, 2, 3, 1).flags.c_contiguous
    )


def _invert_reads(length: int, reach: Reach, stride: int) -> Array:
    """For each element of an axis and each entry of the window, the result that reads it there."""
    entries = np.arange(int(reach.counts[0])) * reach.apart
    moved = np.arange(length)[:, None] - reach.starts[0] - entries
    is_valid = (moved >= 0) & (moved % stride == 0) & (moved < len(reach.starts) * stride)
    return np.where(is_valid, moved // stride, -1)


@lru_cache(maxsize=512)
def _build_tables(window: Window, spatial: tuple[int, int], channels: int, back: bool
                  ) -> Pixels | None:
    """Which rows and columns are read, as steps in memory."""
    axes = list_windows(window, spatial)
    result = build_pixel_tables(axes)
    if result is None or result.output[1] > MAX_POOL_WINDOW_EXTENT:
        return None
    rows, columns, width, output = result.rows, result.columns, 1, result.output
    if back:
        rows, columns = (
            _invert_reads(*axis) for axis in zip(spatial, axes, window.stride, strict=True)
        )
        width, output = len(axes[1].starts), spatial
    down, across = (np.where(table < 0, -1, table * stride) for table, stride in
                    ((rows, width * channels), (columns, channels)))
    return Pixels(output, down, across, result.whole)


def _sum_windows(x: Array, w: Array, bias: Array | None, t: Pixels | None) -> Array | None:
    function = None if t is None else kernels.DEPTHWISE_WINDOWS.address(x.dtype)
    if function is None or t is None:
        return None
    n, c = x.shape[:2]
    y = np.empty((n, *t.output, c), x.dtype)
    entries = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    shift = np.zeros(c, x.dtype) if bias is None else np.ascontiguousarray(bias)
    call_kernel(function, y.size, x, t.rows, t.columns, entries, shift, y,
                *list_pixel_sizes(x.shape, t))
    return y.transpose(0, 3, 1, 2)


def forward(x: Array, w: Array, bias: Array | None, window: Window) -> Array | None:
    """Convolve."""
    spatial = (x.shape[2], x.shape[3])
    return _sum_windows(x, w, bias, _build_tables(window, spatial, x.shape[1], False))


def backward_data(g: Array, w: Array, spatial: Sequence[int], window: Window) -> Array | None:
    """Return the cotangent of the input."""
    t = _build_tables(window, (spatial[0], spatial[1]), g.shape[1], True)
    return _sum_windows(g, w, None, t)


def backward_weight(x: Array, g: Array, window: Window) -> Array | None:
    """Return the cotangent of the weight."""
    c, t = x.shape[1], _build_tables(window, (x.shape[2], x.shape[3]), x.shape[1], False)
    function = None if t is None else kernels.DEPTHWISE_WEIGHT.address(x.dtype)
    if function is None or t is None:
        return None
    g = np.ascontiguousarray(g.transpose(0, 2, 3, 1))
    result = np.empty((*window.kernel, 1, c), x.dtype)
    call_kernel(function, g.size, x, t.rows, t.columns, g, result, *list_pixel_sizes(x.shape, t))
    return np.ascontiguousarray(result.transpose(3, 2, 0, 1))
