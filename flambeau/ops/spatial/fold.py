"""F.unfold and F.fold: windows of images as columns, and columns summed back into images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..creation.creation import public
from .conv_reference import Window, pad


def _create_window(kernel: Any, dilation: Any, padding: Any, stride: Any) -> Window:
    options = (kernel, dilation, padding, stride)
    pairs = [tuple(v) if isinstance(v, (tuple, list)) else (v, v) for v in options]
    kernel, dilation, padding, stride = (v * 2 if len(v) == 1 else v for v in pairs)
    for name, short, values, minimum in (
        ("kernel size", "kernel", kernel, 1), ("dilation", "dilation", dilation, 1),
        ("padding", "pad", padding, 0), ("stride", "stride", stride, 1),
    ):
        if any(v < minimum for v in values):
            condition = "greater than zero" if minimum else "non-negative"
            raise RuntimeError(f"{name} should be {condition}, but got {short}_height: {values[0]} "
                               f"{short}_width: {values[1]}")
    return Window(kernel, stride, tuple((p, p) for p in padding), dilation)


def _samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 3, 4, 5)), Window((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1))), {}
    yield (rng.normal(size=(1, 2, 5, 5)), Window((2, 3), (2, 1), ((1, 1), (1, 1)), (2, 1))), {}


def _reference(x: np.ndarray, window: Any) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), *window.padding])
    h, w = window.output([n - lo - hi for n, (lo, hi) in zip(x.shape[2:], window.padding)])  # noqa: B905
    (sh, sw), (dh, dw) = window.stride, window.dilation
    parts = [[x[:, :, i * dh : i * dh + h * sh : sh, j * dw : j * dw + w * sw : sw][..., :h, :w]
              for j in range(window.kernel[1])] for i in range(window.kernel[0])]
    return np.moveaxis(np.array(parts), (0, 1), (2, 3)).reshape(len(x), -1, h * w)


@opaque(linear_in="input", layout=Layout.FREE, examples=("input",),
        name="_im2col", node="Im2ColBackward0", expose=(), ref=_reference, samples=_samples)
def im2col(input: Array, window: Window) -> Array:
    """Extract windows of images (n, c, h, w) as columns (n, c * kh * kw, positions)."""
    h, w = window.output(input.shape[2:])
    x = pad(input, window.padding)
    s, (dh, dw), (sh, sw) = x.strides, window.dilation, window.stride
    shape = (*x.shape[:2], *window.kernel, h, w)
    view = np.ndarray(shape, x.dtype, x, 0,
                      (s[0], s[1], dh * s[2], dw * s[3], sh * s[2], sw * s[3]))
    return view.copy().reshape(len(x), shape[1] * shape[2] * shape[3], h * w)


@im2col.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], window: Window) -> Tensor:
    return col2im(g, input_shape[2:], window)


@opaque(linear_in="input", layout=Layout.FREE, examples=("input",),
        name="_col2im", node="Col2ImBackward0", expose=(), ref=None, samples=None)
def col2im(input: Array, spatial: Any, window: Window) -> Array:
    """Sum columns (n, c * kh * kw, positions) into images where their windows lie."""
    h, w = window.output(spatial)
    (top, bottom), (left, right) = window.padding
    kh, kw = window.kernel
    n, c = input.shape[0], input.shape[1] // (kh * kw)
    columns = input.reshape(n, c, kh, kw, h, w)
    result = np.zeros((n, c, spatial[0] + top + bottom, spatial[1] + left + right), input.dtype)
    (sh, sw), (dh, dw) = window.stride, window.dilation
    for i, j in np.ndindex(kh, kw):
        rows = slice(i * dh, i * dh + sh * (h - 1) + 1, sh)
        result[:, :, rows, j * dw : j * dw + sw * (w - 1) + 1 : sw] += columns[:, :, i, j]
    return np.ascontiguousarray(result[:, :, top : top + spatial[0], left : left + spatial[1]])


@col2im.vjp("input")
def _(g: Tensor, window: Window) -> Tensor:
    return im2col(g, window)


def _describe_window(window: Window) -> str:
    pads = tuple(lo for lo, _ in window.padding)
    return f"kernel_size={window.kernel}, dilation={window.dilation}, padding={pads}"


@public(spaces=("nn.functional",))  # Tensor.unfold is another operator
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Extract image windows as columns: (n, c, h, w) becomes (n, c * kh * kw, positions).

    >>> torch.nn.functional.unfold(torch.arange(4.).reshape(1, 1, 2, 2), (1, 2))
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    window = _create_window(kernel_size, dilation, padding, stride)
    shape = input._array.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    result = window.output(shape[-2:])
    if min(result) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, {_describe_window(window)}, calculated "
            f"shape of the array of sliding blocks as {result}, but its components must be at "
            "least one."
        )
    if len(shape) == 3:
        return im2col(input.unsqueeze(0), window).squeeze(0)
    return im2col(input, window)


@composite(expose=("nn.functional",))
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1
) -> Tensor:
    """Sum columns back into images: (n, c * kh * kw, positions) becomes (n, c, h, w).

    Args:
        input: Columns, (n, c * kh * kw, positions) or without n.

    >>> torch.nn.functional.fold(torch.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    window = _create_window(kernel_size, dilation, padding, stride)
    size = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
    size = size * 2 if len(size) == 1 else size
    shape = input._array.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    if shape[-2] % (window.kernel[0] * window.kernel[1]):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[-2]} and kernel_size={window.kernel}."
        )
    h, w = window.output(size)
    settings = f"Given output_size={size}, {_describe_window(window)}, stride={window.stride},"
    if shape[-1] != h * w:
        raise RuntimeError(
            f"{settings} expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {h} * {w} = {h * w}, but got input.size(2)={shape[-1]}."
        )
    if min(h, w) < 1:
        raise RuntimeError(f"{settings} calculated shape of the array of sliding blocks as "
                           f"({h}, {w}), which is too small (non-positive)")
    if len(shape) == 2:
        return col2im(input.unsqueeze(0), size, window).squeeze(0)
    return col2im(input, size, window)
