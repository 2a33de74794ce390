"""Max pooling of large arrays in machine code; None until it is there, and where it is not for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .conv_native import empty, kernel_for, laid_out, run_kernel
from .registry import Array

if TYPE_CHECKING:
    from .conv_kernels import Window

_LEAST = 1 << 16  # elements from which on machine code is worth its making


def _fits(x: Array, window: Window) -> bool:
    return (
        x.size >= _LEAST and x.__class__ is np.ndarray and x.dtype.char in "fd" and x.ndim == 4
        and len(window.kernel) == 2
    )  # fmt: skip


def _pooling(x: tuple[int, ...], kind: str, window: Window, last: bool) -> Any:
    from ..native.kernels.conv import strides_of
    from ..native.kernels.pool import Pooling
    from ..native.loops import Type

    output = window.output(x[2:])
    kernel, stride, padding, dilation = window
    return Pooling(
        Type.F32 if kind == "f" else Type.F64, x[0], x[1], (x[2], x[3]), (output[0], output[1]),
        (kernel[0], kernel[1]), (stride[0], stride[1]), (padding[0][0], padding[1][0]),
        (dilation[0], dilation[1]), strides_of(x, last), strides_of((*x[:2], *output), last),
    )  # fmt: skip


def maxima(x: Array, window: Window) -> Array | None:
    """Maxima of windows, laid out as x is."""
    if not _fits(x, window):
        return None
    x, last = laid_out(x)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.maxima(_pooling(x.shape, x.dtype.char, window, last))

    function = kernel_for(("max pool", x.dtype.char, x.shape, window, last), build)
    if function is None:
        return None
    y = empty((*x.shape[:2], *window.output(x.shape[2:])), x.dtype, last)
    run_kernel(function, [x, y])
    return y


def maxima_backward(g: Array, x: Array, y: Array, window: Window) -> Array | None:
    """The windows' cotangents at the first element that is equal to the maximum."""
    if not _fits(x, window) or g.dtype != x.dtype:
        return None
    x, last = laid_out(x)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.maxima_backward(_pooling(x.shape, x.dtype.char, window, last))

    function = kernel_for(("max pool back", x.dtype.char, x.shape, window, last), build)
    if function is None:
        return None
    gx = empty(x.shape, x.dtype, last)
    run_kernel(function, [x, _like(y, last), _like(g, last), gx])
    return gx


def _like(x: Array, last: bool) -> Array:
    """x with channels or columns innermost."""
    if not last:
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
