"""Convolutions of large arrays in machine code: forward, and backward to the input and the weight.

What has no kernel, or none yet, is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...native.target.eager_costs import MIN_CONV_MULTIPLICATIONS
from ..core.operator import Array
from . import depthwise_nhwc
from .conv_kernel_choice import Convolution, run_kernel_for

if TYPE_CHECKING:
    from .conv_reference import Window


def _fits(x: Array, w: Array, window: Window, count: int, groups: int) -> bool:
    """Whether a convolution of `count` multiplications is for machine code. NumPy would take a
    product, or a sum per kernel position, for each group."""
    return (
        count * groups >= MIN_CONV_MULTIPLICATIONS
        and x.__class__ is np.ndarray and w.__class__ is np.ndarray
        and x.dtype.char in "fd" and w.dtype.char == x.dtype.char and len(window.kernel) <= 2
    )


def _lay_out(depthwise: bool, *arrays: Array) -> list[tuple[Array, bool]]:
    """Each array, and whether its channels are innermost; depthwise kernels have rows there."""
    if depthwise:
        return [(np.ascontiguousarray(a), False) for a in arrays]
    return [lay_out(a) for a in arrays]


def lay_out(x: Array) -> tuple[Array, bool]:
    """Return an image with rows or channels innermost in memory, and whether it is channels."""
    if x.flags.c_contiguous:
        return x, False
    if x.ndim == 4 and x.transpose(0, 2, 3, 1).flags.c_contiguous:
        return x, True
    return np.ascontiguousarray(x), False


def empty(shape: Sequence[int], dtype: np.dtype, last: bool) -> Array:
    """Return an uninitialized image, with channels innermost in memory if `last`."""
    if not last:
        return np.empty(shape, dtype)
    n, c, h, w = shape
    return np.empty((n, h, w, c), dtype).transpose(0, 3, 1, 2)


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array | None:
    """Convolve x with w."""
    shape = (x.shape[0], w.shape[0], *window.output(x.shape[2:]))
    depthwise = groups > 1 and w.shape[1] == 1
    if not _fits(x, w, window, prod(shape) * prod(w.shape[1:]), groups):
        return None
    if depthwise and depthwise_nhwc.fits(x, w.shape, groups):
        result = depthwise_nhwc.forward(x, w, bias, window)
        if result is not None:
            return result
    (x, x_last), (w, w_last) = _lay_out(depthwise, x, w)
    y = empty(shape, x.dtype, x_last or w_last)
    shift = np.zeros(shape[1], x.dtype) if bias is None else np.ascontiguousarray(bias)
    conv = Convolution("forward", x.shape, w.shape, shape, x.dtype.char, window, groups,
                       (x_last, w_last, x_last or w_last))
    return y if run_kernel_for(conv, [x, w, shift, y]) else None


def backward_data(g: Array, w: Array, spatial: Sequence[int], window: Window, groups: int
                  ) -> Array | None:
    """Return the cotangent of the input, whose spatial axes have the lengths `spatial`."""
    depthwise = groups > 1 and w.shape[1] == 1
    if not _fits(g, w, window, g.size * prod(w.shape[1:]), groups):
        return None
    if depthwise and depthwise_nhwc.fits(g, w.shape, groups):
        result = depthwise_nhwc.backward_data(g, w, spatial, window)
        if result is not None:
            return result
    shape = (g.shape[0], w.shape[1] * groups, *spatial)
    (g, g_last), (w, w_last) = _lay_out(depthwise, g, w)
    result = empty(shape, g.dtype, g_last or w_last)
    conv = Convolution("data", shape, w.shape, g.shape, g.dtype.char, window, groups,
                       (g_last or w_last, w_last, g_last))
    return result if run_kernel_for(conv, [g, w, result]) else None


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array | None:
    """Return the cotangent of the weight."""
    shape = (g.shape[1], x.shape[1] // groups, *window.kernel)
    depthwise = groups > 1 and shape[1] == 1
    if not _fits(x, g, window, g.size * prod(shape[1:]), groups):
        return None
    if depthwise and depthwise_nhwc.fits(x, shape, groups):
        result = depthwise_nhwc.backward_weight(x, g, window)
        if result is not None:
            return result
    (x, x_last), (g, g_last) = _lay_out(depthwise, x, g)
    last = x_last and len(shape) == 4
    new = empty(shape, x.dtype, last)
    conv = Convolution("weight", x.shape, shape, g.shape, x.dtype.char, window, groups,
                       (x_last, last, g_last))
    return new if run_kernel_for(conv, [x, g, new]) else None
