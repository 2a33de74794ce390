"""Pooling of large arrays in machine code, of any number of images of a shape; None until it is
there, and where it is not for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .conv_native import empty, laid_out
from .registry import Array
from .shape_kernels import kernel_for, run_kernel

if TYPE_CHECKING:
    from .conv_kernels import Window

_LEAST = 1 << 16  # elements from which on machine code is worth its making


def _fits(x: Array, window: Window, count: int = 0) -> bool:
    return (
        max(x.size, count) >= _LEAST and x.__class__ is np.ndarray and x.dtype.char in "fd"
        and x.ndim == 4 and len(window.kernel) == 2
    )  # fmt: skip


def _pooling(x: tuple[int, ...], kind: str, window: Window, last: bool) -> Any:
    from ..native.kernels.conv import strides_of
    from ..native.kernels.pool import Pooling
    from ..native.loops import Size, Type

    output = window.output(x[2:])
    kernel, stride, padding, dilation = window
    return Pooling(
        Type.F32 if kind == "f" else Type.F64, Size("images"), x[1], (x[2], x[3]),
        (output[0], output[1]), (kernel[0], kernel[1]), (stride[0], stride[1]),
        (padding[0][0], padding[1][0]), (dilation[0], dilation[1]),
        strides_of(x, last), strides_of((*x[:2], *output), last),
    )  # fmt: skip


def maxima(x: Array, window: Window) -> Array | None:
    """Maxima of windows, laid out as x is."""
    if not _fits(x, window):
        return None
    x, last = laid_out(x)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.maxima(_pooling(x.shape, x.dtype.char, window, last))

    function = kernel_for(("max pool", x.dtype.char, x.shape[1:], window, last), build)
    if function is None:
        return None
    y = empty((*x.shape[:2], *window.output(x.shape[2:])), x.dtype, last)
    run_kernel(function, [x, y], [len(x)])
    return y


def maxima_backward(g: Array, x: Array, y: Array, window: Window) -> Array | None:
    """The windows' cotangents at the first element that is equal to the maximum."""
    if not _fits(x, window) or g.dtype != x.dtype:
        return None
    x, last = laid_out(x)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.maxima_backward(_pooling(x.shape, x.dtype.char, window, last))

    function = kernel_for(("max pool back", x.dtype.char, x.shape[1:], window, last), build)
    if function is None:
        return None
    gx = empty(x.shape, x.dtype, last)
    run_kernel(function, [x, _like(y, last), _like(g, last), gx], [len(x)])
    return gx


def averages(x: Array, window: Window, divisors: Array) -> Array | None:
    """Sums of windows over `divisors` (one number, or one for each window), laid out as x is."""
    if not _fits(x, window):
        return None
    x, last = laid_out(x)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.averages(_pooling(x.shape, x.dtype.char, window, last), _one(divisors))

    key = ("average pool", x.dtype.char, x.shape[1:], window, last, _one(divisors))
    function = kernel_for(key, build)
    if function is None:
        return None
    y = empty((*x.shape[:2], *window.output(x.shape[2:])), x.dtype, last)
    run_kernel(function, [x, *_several(divisors, x.dtype), y], [len(x)])
    return y


def averages_backward(g: Array, spatial: Sequence[int], window: Window, divisors: Array
                      ) -> Array | None:  # fmt: skip
    """Each element's shares of the windows that it is in, laid out as g is."""
    if not g.size or not _fits(g, window, prod(g.shape[:2]) * prod(spatial)):
        return None
    g, last = laid_out(g)
    shape = (*g.shape[:2], *spatial)

    def build() -> Any:
        from ..native.kernels import pool

        return pool.averages_backward(_pooling(shape, g.dtype.char, window, last), _one(divisors))

    key = ("average pool back", g.dtype.char, shape[1:], window, last, _one(divisors))
    function = kernel_for(key, build)
    if function is None:
        return None
    gx = empty(shape, g.dtype, last)
    run_kernel(function, [g, *_several(divisors, g.dtype), gx], [len(g)])
    return gx


def _one(divisors: Array) -> float | None:
    """The number that all sums are divided by; None where there are several."""
    return None if divisors.ndim else float(divisors)


def _several(divisors: Array, kind: np.dtype) -> list[Array]:
    return [np.ascontiguousarray(divisors, kind)] if divisors.ndim else []


def _like(x: Array, last: bool) -> Array:
    """x with channels or columns innermost."""
    if not last:
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
