"""Convolution on arrays: forward, and backward to the input and to the weight, in any rank.

Windows are copied into columns, a block that stays in cache at a time, and multiplied by BLAS.
Where every stride is 1, windows are taken from the flattened padded image, so that a column is one
long run of memory; its few elements that straddle two rows are computed and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...native.target.eager_costs import IM2COL_BLOCK_BYTES, MAX_COPIED_WINDOW_ELEMENTS
from ..core.registry import Array
from . import conv_native, conv_1x1


class Window(NamedTuple):
    """How a convolution moves over its input: one entry for each spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    def output(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """The lengths of the output's spatial axes."""
        return tuple([
            (n + lo + hi - d * (k - 1) - 1) // s + 1
            for n, k, s, (lo, hi), d in zip(spatial, *self, strict=True)
        ])

    @property
    def dense(self) -> bool:
        """Whether every stride is 1."""
        return all(s == 1 for s in self.stride)


def pad(x: Array, padding: Sequence[tuple[int, int]], channels_last: bool = False) -> Array:
    """x with zeros around its spatial axes, contiguous."""
    if not any(lo or hi for lo, hi in padding):
        return np.ascontiguousarray(x)
    pads = ((0, 0), *padding, (0, 0)) if channels_last else ((0, 0), (0, 0), *padding)
    shape = [n + lo + hi for n, (lo, hi) in zip(x.shape, pads, strict=True)]
    result = np.zeros(shape, x.dtype)
    result[tuple([slice(lo, lo + n) for n, (lo, _) in zip(x.shape, pads, strict=True)])] = x
    return result


class _Columns:
    """The windows of a padded input's channels, copied block by block into a matrix.

    Rows: (channel, kernel position...); columns: (image, output position...).
    """

    def __init__(self, x: Array, window: Window, output: tuple[int, ...], channels: int) -> None:
        self.x, self.window, self.output, self.channels = x, window, output, channels
        self.flat = window.dense
        self.rows = channels * prod(window.kernel)
        self.spatial = x.strides[2:]
        self.steps = [s * n for s, n in zip(window.stride, self.spatial, strict=True)]
        self.buffer = np.empty(0, x.dtype)

    def width(self, rows: int) -> int:
        """How many columns an image's first `rows` output rows take."""
        output = (rows, *self.output[1:])
        if not self.flat:
            return prod(output)
        item = self.x.itemsize
        return 1 + sum((n - 1) * s for n, s in zip(output, self.spatial, strict=True)) // item

    def blocks(self) -> Iterator[tuple[int, int, int, int]]:
        """(first image, end, first output row, end), each small enough for the cache."""
        images, rows = self.x.shape[0], self.output[0]
        bytes_each = self.rows * self.width(rows) * self.x.itemsize
        if bytes_each <= IM2COL_BLOCK_BYTES:
            step = max(1, IM2COL_BLOCK_BYTES // max(bytes_each, 1))
            for n in range(0, images, step):
                yield n, min(n + step, images), 0, rows
            return
        step = max(1, rows * IM2COL_BLOCK_BYTES // bytes_each)
        for n in range(images):
            for r in range(0, rows, step):
                yield n, n + 1, r, min(r + step, rows)

    def matrix(self, block: tuple[int, int, int, int], channel: int) -> Array:
        """The columns of one block, for the channels from `channel` on."""
        n0, n1, r0, r1 = block
        x, window = self.x, self.window
        offset = n0 * x.strides[0] + channel * x.strides[1] + r0 * self.steps[0]
        inner: tuple[int, ...] = (self.width(r1 - r0),) if self.flat \
            else (r1 - r0, *self.output[1:])
        steps = (x.itemsize,) if self.flat else tuple(self.steps)
        shape = (self.channels, *window.kernel, n1 - n0, *inner)
        strides = (
            x.strides[1], *[d * s for d, s in zip(window.dilation, self.spatial, strict=True)],
            x.strides[0], *steps,
        )
        windows = np.ndarray(shape, x.dtype, x, offset, strides)
        size = prod(shape)
        if self.buffer.size < size:
            self.buffer = np.empty(size, x.dtype)
        target = self.buffer[:size].reshape(shape)
        np.copyto(target, windows)
        return target.reshape(self.rows, -1)

    def place(self, block: tuple[int, int, int, int], channel: int, at: Sequence[int]) -> Array:
        """The elements that one kernel position meets: (channel, image, output position...)."""
        n0, n1, r0, r1 = block
        x, window = self.x, self.window
        offset = n0 * x.strides[0] + channel * x.strides[1] + r0 * self.steps[0]
        offset += sum(i * d * s for i, d, s in zip(at, window.dilation, self.spatial, strict=True))
        inner: tuple[int, ...] = (self.width(r1 - r0),) if self.flat \
            else (r1 - r0, *self.output[1:])
        steps = (x.itemsize,) if self.flat else tuple(self.steps)
        return np.ndarray((self.channels, n1 - n0, *inner), x.dtype, x, offset,
                          (x.strides[1], x.strides[0], *steps))

    def positions(self, matrix: Array, images: int, rows: int) -> Array:
        """A matrix over the columns (channels, columns) as (image, channel, output position...)."""
        output = (rows, *self.output[1:])
        if not self.flat:
            return matrix.reshape(-1, images, *output).swapaxes(0, 1)
        item, width = matrix.itemsize, self.width(rows)
        scale = [s * item // self.x.itemsize for s in self.spatial]
        shape = (images, matrix.shape[0], *output)
        return np.ndarray(shape, matrix.dtype, matrix, 0,
                          (width * item, matrix.strides[0], *scale))


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """The convolution of x (n, c, ...) with w (o, c / groups, ...)."""
    if conv_1x1.is_pointwise(window, groups, x):
        return conv_1x1.forward(x, w, bias)
    result = conv_native.forward(x, w, bias, window, groups)
    if result is not None:
        return result
    output = window.output(x.shape[2:])
    y = np.empty((x.shape[0], w.shape[0], *output), x.dtype)
    if not y.size:
        return y
    if not x.shape[1]:
        y[...] = 0 if bias is None else _per_channel(bias, y.ndim)
        return y
    x = pad(x, window.padding)
    if groups > 1 and w.shape[1] == 1:
        return _depthwise_forward(x, w, bias, window, y, groups)
    if groups == 1 and y.size * w[:1].size <= MAX_COPIED_WINDOW_ELEMENTS * len(w):
        return _convolve_few_windows(x, w, bias, window, y)
    columns = _Columns(x, window, output, w.shape[1])
    step = w.shape[0] // groups
    weights = w.reshape(groups, step, -1)
    result = np.empty(0, x.dtype)
    for block in columns.blocks():
        n0, n1, r0, r1 = block
        width = columns.width(r1 - r0) * (n1 - n0)
        if result.size != step * width:
            result = np.empty((step, width), x.dtype)
        for g in range(groups):
            np.dot(weights[g], columns.matrix(block, g * w.shape[1]), out=result)
            part = columns.positions(result, n1 - n0, r1 - r0)
            target = y[n0:n1, g * step : (g + 1) * step, r0:r1]
            if bias is None:
                np.copyto(target, part)
            else:
                np.add(part, _per_channel(bias[g * step : (g + 1) * step], y.ndim), out=target)
    return y


def _convolve_few_windows(
    x: Array, w: Array, bias: Array | None, window: Window, y: Array
) -> Array:
    """Convolve few windows of a padded input into y, copying all of them first."""
    steps, output = x.strides[2:], y.shape[2:]
    shape = (x.shape[1], *window.kernel, len(x), *output)
    inside, between = ([n * s for n, s in zip(apart, steps, strict=True)]
                       for apart in (window.dilation, window.stride))
    strides = (x.strides[1], *inside, x.strides[0], *between)
    windows = np.ndarray(shape, x.dtype, x, 0, strides).reshape(w[0].size, -1)
    result = w.reshape(len(w), -1).dot(windows).reshape(len(w), len(x), *output).swapaxes(0, 1)
    if bias is None:
        y[...] = result
    else:
        np.add(result, _per_channel(bias, y.ndim), y)
    return y


def _per_channel(v: Array, ndim: int) -> Array:
    return v.reshape(-1, *(1,) * (ndim - 2))


def _offsets(window: Window) -> Iterator[tuple[int, ...]]:
    """The kernel's positions."""
    return iter(np.ndindex(*window.kernel))


def _take_window(x: Array, window: Window, at: Sequence[int], output: Sequence[int]) -> Array:
    """The elements of a padded input that one kernel position meets, as a view."""
    index: Any = (Ellipsis, *[
        slice(i * d, i * d + s * (n - 1) + 1, s)
        for i, d, s, n in zip(at, window.dilation, window.stride, output, strict=True)
    ])
    return x[index]


def _depthwise_forward(x: Array, w: Array, bias: Array | None, window: Window, y: Array,
                       groups: int) -> Array:
    output, each = y.shape[2:], w.shape[0] // groups
    weights = w.reshape(groups, each, *window.kernel)
    temporary = np.empty((groups, *output), x.dtype)
    for n in range(len(x)):
        for m in range(each):
            target = y[n, m::each]
            target[...] = 0 if bias is None else _per_channel(bias[m::each], y.ndim)
            for at in _offsets(window):
                index: Any = (slice(None), m, *at)
                factor = _per_channel(weights[index], y.ndim)
                np.multiply(_take_window(x[n], window, at, output), factor, out=temporary)
                np.add(target, temporary, out=target)
    return y


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array:
    """The cotangent of the weight, from the input and the output's cotangent."""
    if conv_1x1.is_pointwise(window, groups, x, g):
        return conv_1x1.backward_weight(x, g)
    native = conv_native.backward_weight(x, g, window, groups)
    if native is not None:
        return native
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    result = np.zeros((groups, outputs, channels * prod(window.kernel)), x.dtype)
    shape = (g.shape[1], channels, *window.kernel)
    if not g.size or not result.size:
        return result.reshape(shape)
    x = pad(x, window.padding)
    if groups > 1 and channels == 1:
        return _depthwise_weight(x, g, window, groups).reshape(shape)
    columns = _Columns(x, window, g.shape[2:], channels)
    buffer = np.empty(0, g.dtype)
    for block in columns.blocks():
        n0, n1, r0, r1 = block
        width = columns.width(r1 - r0) * (n1 - n0)
        if buffer.size != outputs * width:
            buffer = np.zeros((outputs, width), g.dtype)  # zeros between rows remain
        view = columns.positions(buffer, n1 - n0, r1 - r0)
        for i in range(groups):
            view[...] = g[n0:n1, i * outputs : (i + 1) * outputs, r0:r1]
            result[i] += np.dot(buffer, columns.matrix(block, i * channels).T)
    return result.reshape(shape)


def _depthwise_weight(x: Array, g: Array, window: Window, groups: int) -> Array:
    output, each = g.shape[2:], g.shape[1] // groups
    result = np.zeros((groups, each, *window.kernel), x.dtype)
    for n in range(len(x)):
        for at in _offsets(window):
            taken = np.ascontiguousarray(_take_window(x[n], window, at, output)).reshape(groups, -1)
            parts = g[n].reshape(groups, each, -1)
            index: Any = (slice(None), slice(None), *at)
            result[index] += np.einsum("gp,gmp->gm", taken, parts)
    return result


def backward_data(g: Array, w: Array, spatial: Sequence[int], window: Window,
                  groups: int) -> Array:
    """The cotangent of the input, from the output's cotangent and the weight."""
    if conv_1x1.is_pointwise(window, groups, g) and tuple(spatial) == g.shape[2:]:
        return conv_1x1.backward_data(g, w)
    native = conv_native.backward_data(g, w, spatial, window, groups)
    if native is not None:
        return native
    n, channels = len(g), w.shape[1]
    margins = tuple([  # a result longer than the windows reach (output_padding) ends in zeros
        (d * (k - 1) - lo, m - length + lo)
        for k, (lo, _), d, m, length in zip(
            window.kernel, window.padding, window.dilation, spatial, g.shape[2:], strict=True)
    ])
    narrow = 2 * channels * groups > len(w)  # else its columns would be the many of the output
    if window.dense and g.size and narrow and all(lo >= 0 and hi >= 0 for lo, hi in margins):
        # the same windows over the cotangent, with the kernel turned around
        turned = np.flip(w.reshape(groups, -1, *w.shape[1:]), tuple(range(3, w.ndim + 1)))
        turned = turned.swapaxes(1, 2).reshape(groups * channels, -1, *window.kernel)
        full = window._replace(padding=margins)
        return forward(g, np.ascontiguousarray(turned), None, full, groups)
    shape = [m + lo + hi for m, (lo, hi) in zip(spatial, window.padding, strict=True)]
    result = np.zeros((n, groups * channels, *shape), g.dtype)
    _scatter(result, g, w, window, groups)
    inside = [slice(lo, lo + m) for m, (lo, _) in zip(spatial, window.padding, strict=True)]
    return np.ascontiguousarray(result[(slice(None), slice(None), *inside)])


def _scatter(new: Array, g: Array, w: Array, window: Window, groups: int) -> None:
    """Add the windows' cotangents to the padded input's."""
    if not g.size or not w.size:
        return
    channels, outputs, output = w.shape[1], w.shape[0] // groups, g.shape[2:]
    columns = _Columns(new, window, output, channels)
    weights = w.reshape(groups, outputs, -1)
    buffer = np.empty(0, g.dtype)
    for n0, n1, r0, r1 in columns.blocks():
        width = columns.width(r1 - r0) * (n1 - n0)
        if buffer.size != outputs * width:
            buffer = np.zeros((outputs, width), g.dtype)  # zeros between rows remain
        view = columns.positions(buffer, n1 - n0, r1 - r0)
        for i in range(groups):
            view[...] = g[n0:n1, i * outputs : (i + 1) * outputs, r0:r1]
            result = np.dot(weights[i].T, buffer)
            result = result.reshape(channels, *window.kernel, n1 - n0, *(
                (width // (n1 - n0),) if columns.flat else (r1 - r0, *output[1:])))
            for at in _offsets(window):
                place = columns.place((n0, n1, r0, r1), i * channels, at)
                np.add(place, result[(slice(None), *at)], out=place)


# ------------------------------------------------------------------------ channels innermost


def is_channels_last(x: Array) -> bool:
    """Whether the channels of (n, c, h, w) are innermost in memory, and not the rows too."""
    if x.flags.c_contiguous or x.ndim != 4:
        return False
    return x.transpose(0, 2, 3, 1).flags.c_contiguous


def forward_channels_last(x: Array, w: Array, bias: Array | None, window: Window) -> Array:
    """The convolution of x, channels innermost in memory, giving a result laid out the same."""
    result = conv_native.forward(x, w, bias, window, 1)
    if result is not None:
        return result
    output = window.output(x.shape[2:])
    y = np.empty((len(x), *output, w.shape[0]), x.dtype)  # (n, h, w, c)
    if y.size:
        weights = w.transpose(2, 3, 1, 0).reshape(-1, w.shape[0])
        x = pad(x.transpose(0, 2, 3, 1), window.padding, channels_last=True)
        _rows_forward(x, weights, bias, window, y)
    return y.transpose(0, 3, 1, 2)


def _rows_forward(x: Array, weights: Array, bias: Array | None, window: Window, y: Array) -> None:
    (h, w), (kh, kw), c = y.shape[1:3], window.kernel, x.shape[3]
    s, (sh, sw), (dh, dw) = x.strides, window.stride, window.dilation
    row_bytes = w * kh * kw * c * x.itemsize
    rows = max(1, min(h, IM2COL_BLOCK_BYTES // row_bytes))
    images = max(1, IM2COL_BLOCK_BYTES // (row_bytes * h)) if rows == h else 1
    buffer = np.empty(images * rows * w * kh * kw * c, x.dtype)
    for n in range(0, len(x), images):
        count = min(images, len(x) - n)
        for r in range(0, h, rows):
            shape = (count, min(rows, h - r), w, kh, kw, c)
            windows = np.ndarray(shape, x.dtype, x, n * s[0] + r * sh * s[1],
                                 (s[0], sh * s[1], sw * s[2], dh * s[1], dw * s[2], s[3]))
            columns = buffer[: prod(shape)].reshape(shape)
            np.copyto(columns, windows)
            target = y[n : n + count, r : r + shape[1]].reshape(-1, y.shape[3])
            np.dot(columns.reshape(len(target), -1), weights, out=target)
            if bias is not None:
                np.add(target, bias, out=target)
