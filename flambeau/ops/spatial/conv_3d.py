"""Three-dimensional convolutions in machine code: the taps along depth become channels.

A window over (depth, height, width) of c channels reads what a window over (height, width) of
c * kernel_depth channels reads, once the frames that a tap meets are copied next to each other. The
copy costs kernel_depth times the input's memory; the products run in the kernels of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.operator import Array
from . import conv_native

if TYPE_CHECKING:
    from .conv_reference import Window


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array | None:
    """Convolve x (n, c, d, h, w) with w; None if there is no kernel."""
    frames = window.output(x.shape[2:])[0]
    if not _has_kernels(x, w) or frames < 1:
        return None
    images = _unroll_depth(x, window, frames)
    y = conv_native.forward(images, _merge_taps(w), bias, _drop_depth(window), groups)
    if y is None:
        return None
    return np.ascontiguousarray(y.reshape(len(x), frames, *y.shape[1:]).swapaxes(1, 2))


def backward_data(
    g: Array, w: Array, spatial: Sequence[int], window: Window, groups: int
) -> Array | None:
    """Return the cotangent of an input whose spatial axes have the lengths `spatial`."""
    if not _has_kernels(g, w) or 0 in spatial:
        return None
    (n, _, frames), (before, after) = g.shape[:3], window.padding[0]
    images = conv_native.backward_data(
        _merge_frames(g), _merge_taps(w), spatial[1:], _drop_depth(window), groups
    )
    if images is None:
        return None
    taps = images.reshape(n, frames, -1, window.kernel[0], *spatial[1:])
    padded = np.zeros((n, taps.shape[2], spatial[0] + before + after, *spatial[1:]), g.dtype)
    for k in range(window.kernel[0]):
        _view_tap(padded, window, k, frames)[...] += taps[:, :, :, k].swapaxes(1, 2)
    return np.ascontiguousarray(padded[:, :, before : before + spatial[0]])


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array | None:
    """Return the cotangent of the weight."""
    if not _has_kernels(x, g):
        return None
    images = _unroll_depth(x, window, g.shape[2])
    merged = conv_native.backward_weight(images, _merge_frames(g), _drop_depth(window), groups)
    if merged is None:
        return None
    return merged.reshape(len(merged), -1, *window.kernel)


def _has_kernels(a: Array, b: Array) -> bool:
    return a.__class__ is b.__class__ is np.ndarray and a.dtype.char in "fd" \
        and b.dtype is a.dtype and bool(a.size and b.size)


def _view_tap(padded: Array, window: Window, k: int, frames: int) -> Array:
    """Return the frames of a padded input that the tap `k` along depth meets."""
    start, step = k * window.dilation[0], window.stride[0]
    return padded[:, :, start : start + step * (frames - 1) + 1 : step]


def _unroll_depth(x: Array, window: Window, frames: int) -> Array:
    """Return images (n * frames, c * kernel_depth, h, w): for each output frame, what it reads."""
    before, after = window.padding[0]
    if before or after:
        x = np.pad(x, ((0, 0), (0, 0), (before, after), (0, 0), (0, 0)))
    n, c, _, h, w = x.shape
    taps = np.empty((n, frames, c, window.kernel[0], h, w), x.dtype)
    for k in range(window.kernel[0]):
        taps[:, :, :, k] = _view_tap(x, window, k, frames).swapaxes(1, 2)
    return taps.reshape(n * frames, -1, h, w)


def _merge_frames(g: Array) -> Array:
    """Return a cotangent (n, o, d, h, w) as images (n * d, o, h, w)."""
    n, o, d, *spatial = g.shape
    return g.swapaxes(1, 2).reshape(n * d, o, *spatial)


def _merge_taps(w: Array) -> Array:
    """Return a weight (o, c, d, h, w) as one of images (o, c * d, h, w)."""
    return w.reshape(len(w), -1, *w.shape[3:])


def _drop_depth(window: Window) -> Window:
    """Return the window without its first axis."""
    return window._replace(kernel=window.kernel[1:], stride=window.stride[1:],
                           padding=window.padding[1:], dilation=window.dilation[1:])
