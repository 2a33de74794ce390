"""Convolution on arrays: forward, and backward to the input and to the weight, in any rank.

Windows are copied into columns, one block that fits in cache at a time, and multiplied by BLAS. If
every stride is 1, windows are taken from the flattened padded image, so that a column is one long
run of memory; the few elements that straddle two rows are computed and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...native.target.eager_costs import IM2COL_BLOCK_BYTES, MAX_COPIED_WINDOW_ELEMENTS
from ..core.operator import Array
from . import conv_1x1, conv_3d, conv_native


class Window(NamedTuple):
    """How a convolution moves over its input; one entry per spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    def output(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the lengths of the output's spatial axes."""
        return tuple([
            (n + lo + hi - d * (k - 1) - 1) // s + 1
            for n, k, s, (lo, hi), d in zip(spatial, *self, strict=True)
        ])

    @property
    def dense(self) -> bool:
        """Return whether every stride is 1."""
        return all(s == 1 for s in self.stride)


def pad(x: Array, padding: Sequence[tuple[int, int]], channels_last: bool = False) -> Array:
    """Return x with zeros around its spatial axes, contiguous."""
    if not any(lo or hi for lo, hi in padding):
        return np.ascontiguousarray(x)
    pads = ((0, 0), *padding, (0, 0)) if channels_last else ((0, 0), (0, 0), *padding)
    shape = [n + lo + hi for n, (lo, hi) in zip(x.shape, pads, strict=True)]
    result = np.zeros(shape, x.dtype)
    result[tuple([slice(lo, lo + n) for n, (lo, _) in zip(x.shape, pads, strict=True)])] = x
    return result


class Block(NamedTuple):
    """Rows of several images' outputs, few enough for their columns to stay in cache."""

    image: int
    end_image: int
    row: int
    end_row: int

    @property
    def images(self) -> int:
        """The number of images."""
        return self.end_image - self.image

    @property
    def rows(self) -> int:
        """The number of output rows per image."""
        return self.end_row - self.row

    def cut(self, y: Array, channel: int, channels: int) -> Array:
        """Return a view of the block of y (image, channel, row, ...)."""
        return y[self.image : self.end_image, channel : channel + channels, self.row : self.end_row]


class _Columns:
    """The windows of a padded input's channels, copied block by block into a matrix.

    Rows: (channel, kernel position...); columns: (image, output position...).
    """

    def __init__(self, x: Array, window: Window, output: tuple[int, ...], channels: int) -> None:
        self.x, self.window, self.output, self.channels = x, window, output, channels
        self.is_flat = window.dense  # columns are single runs of memory
        self.rows = channels * prod(window.kernel)
        self.pixel_strides = x.strides[2:]
        self.steps = [s * n for s, n in zip(window.stride, self.pixel_strides, strict=True)]
        self.buffer = np.empty(0, x.dtype)

    def width(self, rows: int) -> int:
        """Return the number of columns that an image's first `rows` output rows take."""
        output = (rows, *self.output[1:])
        if not self.is_flat:
            return prod(output)
        item = self.x.itemsize
        return 1 + sum((n - 1) * s for n, s in zip(output, self.pixel_strides, strict=True)) // item

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the output: whole images, or rows of one image."""
        images, rows = self.x.shape[0], self.output[0]
        bytes_per_image = self.rows * self.width(rows) * self.x.itemsize
        if bytes_per_image <= IM2COL_BLOCK_BYTES:
            step = max(1, IM2COL_BLOCK_BYTES // max(bytes_per_image, 1))
            for n in range(0, images, step):
                yield Block(n, min(n + step, images), 0, rows)
            return
        step = max(1, rows * IM2COL_BLOCK_BYTES // bytes_per_image)
        for n in range(images):
            for r in range(0, rows, step):
                yield Block(n, n + 1, r, min(r + step, rows))

    def fill(self, block: Block, channel: int) -> Array:
        """Copy a block's columns, for the channels from `channel` on, into the buffer."""
        x, window = self.x, self.window
        extents, steps = self._lay_out(block)
        shape = (self.channels, *window.kernel, block.images, *extents)
        taps = [d * s for d, s in zip(window.dilation, self.pixel_strides, strict=True)]
        strides = (x.strides[1], *taps, x.strides[0], *steps)
        windows = np.ndarray(shape, x.dtype, x, self._locate_channel(block, channel), strides)
        size = prod(shape)
        if self.buffer.size < size:
            self.buffer = np.empty(size, x.dtype)
        target = self.buffer[:size].reshape(shape)
        np.copyto(target, windows)
        return target.reshape(self.rows, -1)

    def view_tap(self, block: Block, channel: int, tap: Sequence[int]) -> Array:
        """Return the elements at one kernel position: (channel, image, output position...)."""
        x = self.x
        extents, steps = self._lay_out(block)
        offset = self._locate_channel(block, channel) + sum(
            i * d * s for i, d, s in zip(tap, self.window.dilation, self.pixel_strides, strict=True)
        )
        return np.ndarray((self.channels, block.images, *extents), x.dtype, x, offset,
                          (x.strides[1], x.strides[0], *steps))

    def view_output(self, matrix: Array, block: Block) -> Array:
        """View a matrix (channels, columns) as (image, channel, output position...)."""
        output = (block.rows, *self.output[1:])
        if not self.is_flat:
            return matrix.reshape(-1, block.images, *output).swapaxes(0, 1)
        item = matrix.itemsize
        strides = [s * item // self.x.itemsize for s in self.pixel_strides]
        return np.ndarray((block.images, matrix.shape[0], *output), matrix.dtype, matrix, 0,
                          (self.width(block.rows) * item, matrix.strides[0], *strides))

    def _locate_channel(self, block: Block, channel: int) -> int:
        """Return the byte offset of the windows of a block's first output."""
        x = self.x
        return block.image * x.strides[0] + channel * x.strides[1] + block.row * self.steps[0]

    def _lay_out(self, block: Block) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the extents and strides of an image's columns in x."""
        if self.is_flat:
            return (self.width(block.rows),), (self.x.itemsize,)
        return (block.rows, *self.output[1:]), tuple(self.steps)


# ------------------------------------------------------------------------------------ forward


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """Convolve x (n, c, ...) with w (o, c / groups, ...)."""
    if conv_1x1.is_pointwise(window, groups, x):
        return conv_1x1.forward(x, w, bias)
    result = _choose_kernels(x).forward(x, w, bias, window, groups)
    if result is not None:
        return result
    y = np.empty((x.shape[0], w.shape[0], *window.output(x.shape[2:])), x.dtype)
    if not y.size:
        return y
    if not x.shape[1]:
        y[...] = 0 if bias is None else _view_per_channel(bias, y.ndim)
        return y
    x = pad(x, window.padding)
    if groups > 1 and w.shape[1] == 1:
        _convolve_depthwise(x, w, bias, window, y, groups)
    elif groups == 1 and y.size * w[:1].size <= MAX_COPIED_WINDOW_ELEMENTS * len(w):
        _convolve_few_windows(x, w, bias, window, y)
    else:
        _convolve_blocks(x, w, bias, window, y, groups)
    return y


def _choose_kernels(x: Array) -> ModuleType:
    """Return the module that convolves such arrays in machine code, if it has a kernel for them."""
    return conv_3d if x.ndim == 5 else conv_native


def _convolve_blocks(
    x: Array, w: Array, bias: Array | None, window: Window, y: Array, groups: int
) -> None:
    """Convolve a padded input into y with a matrix product per block and group."""
    channels, outputs = w.shape[1], w.shape[0] // groups
    columns = _Columns(x, window, y.shape[2:], channels)
    weights = w.reshape(groups, outputs, -1)
    product = np.empty((outputs, 0), x.dtype)
    for block in columns.blocks():
        width = columns.width(block.rows) * block.images
        if product.shape[1] != width:
            product = np.empty((outputs, width), x.dtype)
        for g in range(groups):
            np.dot(weights[g], columns.fill(block, g * channels), out=product)
            result = columns.view_output(product, block)
            target = block.cut(y, g * outputs, outputs)
            if bias is None:
                np.copyto(target, result)
            else:
                group_bias = bias[g * outputs : (g + 1) * outputs]
                np.add(result, _view_per_channel(group_bias, y.ndim), out=target)


def _convolve_few_windows(
    x: Array, w: Array, bias: Array | None, window: Window, y: Array
) -> None:
    """Convolve a padded input into y with one product over copies of all windows."""
    steps, output = x.strides[2:], y.shape[2:]
    shape = (x.shape[1], *window.kernel, len(x), *output)
    taps, moves = ([n * s for n, s in zip(distances, steps, strict=True)]
                   for distances in (window.dilation, window.stride))
    strides = (x.strides[1], *taps, x.strides[0], *moves)
    windows = np.ndarray(shape, x.dtype, x, 0, strides).reshape(w[0].size, -1)
    result = w.reshape(len(w), -1).dot(windows).reshape(len(w), len(x), *output).swapaxes(0, 1)
    if bias is None:
        y[...] = result
    else:
        np.add(result, _view_per_channel(bias, y.ndim), y)


def _view_per_channel(v: Array, ndim: int) -> Array:
    """Reshape one number per channel to broadcast over (n, c, ...)."""
    return v.reshape(-1, *(1,) * (ndim - 2))


def _take_tap(x: Array, window: Window, tap: Sequence[int], output: Sequence[int]) -> Array:
    """Return a view of the elements of a padded input that meet one kernel position."""
    index: Any = (Ellipsis, *[
        slice(i * d, i * d + s * (n - 1) + 1, s)
        for i, d, s, n in zip(tap, window.dilation, window.stride, output, strict=True)
    ])
    return x[index]


def _convolve_depthwise(
    x: Array, w: Array, bias: Array | None, window: Window, y: Array, groups: int
) -> None:
    """Convolve each channel of a padded input separately: sum products with one weight each."""
    output, multiplier = y.shape[2:], w.shape[0] // groups
    weights = w.reshape(groups, multiplier, *window.kernel)
    product = np.empty((groups, *output), x.dtype)
    for n in range(len(x)):
        for m in range(multiplier):
            target = y[n, m::multiplier]
            target[...] = 0 if bias is None else _view_per_channel(bias[m::multiplier], y.ndim)
            for tap in np.ndindex(*window.kernel):
                factor = _view_per_channel(weights[(slice(None), m, *tap)], y.ndim)
                np.multiply(_take_tap(x[n], window, tap, output), factor, out=product)
                np.add(target, product, out=target)


# ----------------------------------------------------------------------------------- backward


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array:
    """Return the cotangent of the weight, given the input and the output's cotangent."""
    if conv_1x1.is_pointwise(window, groups, x, g):
        return conv_1x1.backward_weight(x, g)
    native = _choose_kernels(x).backward_weight(x, g, window, groups)
    if native is not None:
        return native
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    shape = (g.shape[1], channels, *window.kernel)
    if not g.size or not prod(shape):
        return np.zeros(shape, x.dtype)
    x = pad(x, window.padding)
    if groups > 1 and channels == 1:
        return _correlate_depthwise(x, g, window, groups).reshape(shape)
    result = np.zeros((groups, outputs, channels * prod(window.kernel)), x.dtype)
    columns = _Columns(x, window, g.shape[2:], channels)
    for block, i, cotangents in _cut_cotangents(columns, g, groups):
        result[i] += np.dot(cotangents, columns.fill(block, i * channels).T)
    return result.reshape(shape)


def _cut_cotangents(
    columns: _Columns, g: Array, groups: int
) -> Iterator[tuple[Block, int, Array]]:
    """Yield blocks, groups, and the output's cotangents there as a matrix (channels, columns).

    The matrix reuses the same memory. Columns that straddle two rows are zero.
    """
    outputs = g.shape[1] // groups
    buffer = np.empty((outputs, 0), g.dtype)
    for block in columns.blocks():
        width = columns.width(block.rows) * block.images
        if buffer.shape[1] != width:
            buffer = np.zeros((outputs, width), g.dtype)
        view = columns.view_output(buffer, block)
        for i in range(groups):
            view[...] = block.cut(g, i * outputs, outputs)
            yield block, i, buffer


def _correlate_depthwise(x: Array, g: Array, window: Window, groups: int) -> Array:
    """The cotangent of a depthwise weight: each tap's elements times the output's cotangents."""
    output, multiplier = g.shape[2:], g.shape[1] // groups
    result = np.zeros((groups, multiplier, *window.kernel), x.dtype)
    for n in range(len(x)):
        cotangents = g[n].reshape(groups, multiplier, -1)
        for tap in np.ndindex(*window.kernel):
            elements = np.ascontiguousarray(_take_tap(x[n], window, tap, output))
            result[(slice(None), slice(None), *tap)] += np.einsum(
                "gp,gmp->gm", elements.reshape(groups, -1), cotangents)
    return result


def backward_data(g: Array, w: Array, spatial: Sequence[int], window: Window,
                  groups: int) -> Array:
    """Return the cotangent of the input, given the output's cotangent and the weight."""
    if conv_1x1.is_pointwise(window, groups, g) and tuple(spatial) == g.shape[2:]:
        return conv_1x1.backward_data(g, w)
    native = _choose_kernels(g).backward_data(g, w, spatial, window, groups)
    if native is not None:
        return native
    channels = w.shape[1] * groups
    margins = tuple([  # zeros at the end, beyond all windows (output_padding)
        (d * (k - 1) - lo, m - length + lo)
        for k, (lo, _), d, m, length in zip(
            window.kernel, window.padding, window.dilation, spatial, g.shape[2:], strict=True)
    ])
    is_narrow = 2 * channels > len(w)  # else im2col of the output's many channels costs more
    if window.dense and g.size and is_narrow and all(lo >= 0 and hi >= 0 for lo, hi in margins):
        full = window._replace(padding=margins)
        return forward(g, _transpose_kernel(w, groups), None, full, groups)
    shape = [m + lo + hi for m, (lo, hi) in zip(spatial, window.padding, strict=True)]
    padded = np.zeros((len(g), channels, *shape), g.dtype)
    _scatter(padded, g, w, window, groups)
    interior = [slice(lo, lo + m) for m, (lo, _) in zip(spatial, window.padding, strict=True)]
    return np.ascontiguousarray(padded[(slice(None), slice(None), *interior)])


def _transpose_kernel(w: Array, groups: int) -> Array:
    """Return the weight that convolves the output's cotangent into the input's.

    Input and output channels are swapped, and every spatial axis is reversed.
    """
    flipped = np.flip(w.reshape(groups, -1, *w.shape[1:]), tuple(range(3, w.ndim + 1)))
    flipped = flipped.swapaxes(1, 2).reshape(groups * w.shape[1], -1, *w.shape[2:])
    return np.ascontiguousarray(flipped)


def _scatter(target: Array, g: Array, w: Array, window: Window, groups: int) -> None:
    """Add the windows' cotangents to the padded input's."""
    if not g.size or not w.size:
        return
    channels = w.shape[1]
    columns = _Columns(target, window, g.shape[2:], channels)
    weights = w.reshape(groups, w.shape[0] // groups, -1)
    for block, i, cotangents in _cut_cotangents(columns, g, groups):
        product = np.dot(weights[i].T, cotangents)
        extents = (-1,) if columns.is_flat else (block.rows, *g.shape[3:])
        product = product.reshape(channels, *window.kernel, block.images, *extents)
        for tap in np.ndindex(*window.kernel):
            place = columns.view_tap(block, i * channels, tap)
            np.add(place, product[(slice(None), *tap)], out=place)


# ------------------------------------------------------------------------ channels innermost


def is_channels_last(x: Array) -> bool:
    """Return whether (n, c, h, w) is channels last in memory, and not also row-major."""
    if x.flags.c_contiguous or x.ndim != 4:
        return False
    return x.transpose(0, 2, 3, 1).flags.c_contiguous


def forward_channels_last(x: Array, w: Array, bias: Array | None, window: Window) -> Array:
    """Convolve channels-last x; the result has the same layout."""
    result = conv_native.forward(x, w, bias, window, 1)
    if result is not None:
        return result
    output = window.output(x.shape[2:])
    y = np.empty((len(x), *output, w.shape[0]), x.dtype)  # (n, h, w, c)
    if y.size:
        weights = w.transpose(2, 3, 1, 0).reshape(-1, w.shape[0])
        x = pad(x.transpose(0, 2, 3, 1), window.padding, channels_last=True)
        _convolve_channels_last(x, weights, bias, window, y)
    return y.transpose(0, 3, 1, 2)


def _convolve_channels_last(
    x: Array, weights: Array, bias: Array | None, window: Window, y: Array
) -> None:
    """Convolve a padded input (n, h, w, c) into y, with windows as rows of the matrix."""
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
