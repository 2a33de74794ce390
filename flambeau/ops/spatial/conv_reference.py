"""Convolution on arrays: forward, and backward to the input and to the weight, in any rank.

Where there is no kernel for an array or none yet, windows are copied into columns, one block that
fits in cache at a time, and multiplied by BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...native.target.eager_costs import IM2COL_BLOCK_BYTES
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


def pad(x: Array, padding: Sequence[tuple[int, int]]) -> Array:
    """Return x with zeros around its spatial axes, contiguous."""
    if not any(lo or hi for lo, hi in padding):
        return np.ascontiguousarray(x)
    pads = ((0, 0), (0, 0), *padding)
    shape = [n + lo + hi for n, (lo, hi) in zip(x.shape, pads, strict=True)]
    result = np.zeros(shape, x.dtype)
    result[tuple([slice(lo, lo + n) for n, (lo, _) in zip(x.shape, pads, strict=True)])] = x
    return result


# ------------------------------------------------------------------------------------ columns


Block = tuple[slice, slice] | None  # some images and rows of the output, or all of it


class _Windows:
    """The windows of a padded input (n, c, ...), as columns of a matrix for each group of channels.

    Rows: (channel, kernel position...); columns: (image, output position...).
    """

    def __init__(self, x: Array, window: Window, output: Sequence[int], groups: int) -> None:
        steps = x.strides[2:]
        taps, moves = ([n * s for n, s in zip(distances, steps, strict=True)]
                       for distances in (window.dilation, window.stride))
        self.lead = (x.shape[1], *window.kernel)
        self.elements = np.ndarray(  # a view: (channel, kernel position..., image, output...)
            (*self.lead, len(x), *output), x.dtype, x, 0,
            (x.strides[1], *taps, x.strides[0], *moves))
        self.groups, self.output = groups, output

    def blocks(self) -> Iterator[Block]:
        """Yield blocks whose columns stay in cache."""
        if self.elements.nbytes <= IM2COL_BLOCK_BYTES:
            yield None
            return
        images, (rows, *row) = self.elements.shape[len(self.lead)], self.output
        row_bytes = prod(self.lead) * prod(row) * self.elements.itemsize
        fitting_rows = max(1, IM2COL_BLOCK_BYTES // row_bytes)
        step, row_step = max(1, fitting_rows // rows), min(rows, fitting_rows)
        for n in range(0, images, step):
            for r in range(0, rows, row_step):
                yield slice(n, n + step), slice(r, r + row_step)

    def copy(self, block: Block) -> Array:
        """Return a block's columns: (group, row, column)."""
        part = self.elements
        if block is not None:
            part = part[(*(slice(None),) * len(self.lead), *block)]
        return part.reshape(self.groups, prod(self.lead) // self.groups, -1)

    def add(self, block: Block, columns: Array) -> None:
        """Add a block's columns to the elements that they would be copied from."""
        for tap in np.ndindex(*self.lead[1:]):
            target = self.elements[(slice(None), *tap, *(block or ()))]
            target += columns.reshape(*self.lead, *target.shape[1:])[(slice(None), *tap)]


def _cut(y: Array, block: Block) -> Array:
    """Return a view of a block of y (n, c, output...)."""
    return y if block is None else y[block[0], :, block[1]]


def _view_groups(y: Array, groups: int) -> Array:
    """Return y (n, c, output...) as a matrix for each group: (group, channel, column)."""
    return y.swapaxes(0, 1).reshape(groups, y.shape[1] // groups, -1)


def _view_per_channel(v: Array, ndim: int) -> Array:
    """Reshape one number per channel to broadcast over (n, c, ...)."""
    return v.reshape(-1, *(1,) * (ndim - 2))


# ------------------------------------------------------------------------- the three directions


def _choose_kernels(x: Array) -> ModuleType:
    """Return the module that convolves such arrays in machine code, if it has a kernel for them."""
    return conv_3d if x.ndim == 5 else conv_native


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """Convolve x (n, c, ...) with w (o, c / groups, ...)."""
    if conv_1x1.is_pointwise(window, groups, x):
        return conv_1x1.forward(x, w, bias)
    native = _choose_kernels(x).forward(x, w, bias, window, groups)
    return _convolve(x, w, bias, window, groups) if native is None else native


def _convolve(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """Convolve without a kernel."""
    y = np.empty((x.shape[0], w.shape[0], *window.output(x.shape[2:])), x.dtype)
    if not y.size:
        return y
    if not w.size:
        y[...] = 0 if bias is None else _view_per_channel(bias, y.ndim)
        return y
    windows = _Windows(pad(x, window.padding), window, y.shape[2:], groups)
    weights = w.reshape(groups, len(w) // groups, -1)
    for block in windows.blocks():
        target = _cut(y, block)
        product = np.matmul(weights, windows.copy(block))
        product = product.reshape(len(w), len(target), *target.shape[2:]).swapaxes(0, 1)
        if bias is None:
            target[...] = product
        else:
            np.add(product, _view_per_channel(bias, y.ndim), out=target)
    return y


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array:
    """Return the cotangent of the weight, given the input and the output's cotangent."""
    if conv_1x1.is_pointwise(window, groups, x, g):
        return conv_1x1.backward_weight(x, g)
    native = _choose_kernels(x).backward_weight(x, g, window, groups)
    if native is not None:
        return native
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    result = np.zeros((groups, outputs, channels * prod(window.kernel)), x.dtype)
    if g.size and result.size:
        windows = _Windows(pad(x, window.padding), window, g.shape[2:], groups)
        for block in windows.blocks():
            cotangents = _view_groups(_cut(g, block), groups)
            result += np.matmul(cotangents, windows.copy(block).swapaxes(1, 2))
    return result.reshape(g.shape[1], channels, *window.kernel)


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
    if g.size and w.size:
        windows = _Windows(padded, window, g.shape[2:], groups)
        weights = w.reshape(groups, len(w) // groups, -1).swapaxes(1, 2)
        for block in windows.blocks():
            windows.add(block, np.matmul(weights, _view_groups(_cut(g, block), groups)))
    interior = [slice(lo, lo + m) for m, (lo, _) in zip(spatial, window.padding, strict=True)]
    return np.ascontiguousarray(padded[(slice(None), slice(None), *interior)])


def _transpose_kernel(w: Array, groups: int) -> Array:
    """Return the weight that convolves the output's cotangent into the input's.

    Input and output channels are swapped, and every spatial axis is reversed.
    """
    flipped = np.flip(w.reshape(groups, -1, *w.shape[1:]), tuple(range(3, w.ndim + 1)))
    flipped = flipped.swapaxes(1, 2).reshape(groups * w.shape[1], -1, *w.shape[2:])
    return np.ascontiguousarray(flipped)


# ------------------------------------------------------------------------ channels innermost


def is_channels_last(x: Array) -> bool:
    """Return whether (n, c, h, w) is channels last in memory, and not also row-major."""
    if x.flags.c_contiguous or x.ndim != 4:
        return False
    return x.transpose(0, 2, 3, 1).flags.c_contiguous


def forward_channels_last(x: Array, w: Array, bias: Array | None, window: Window) -> Array:
    """Convolve channels-last x; the result has the same layout."""
    y = conv_native.forward(x, w, bias, window, 1)
    if y is None:
        y = _convolve(x, w, bias, window, 1).transpose(0, 2, 3, 1)
        y = np.ascontiguousarray(y).transpose(0, 3, 1, 2)
    return y
