"""Convolutions of large arrays in machine code: forward, and backward to the input and the weight.

A shape's kernel is made in the background when the shape comes up for the second time; until it is
there, and for what it does not do, these functions return None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .batches import served
from .registry import Array

if TYPE_CHECKING:
    from ..native.kernels.conv import Geometry
    from .conv_kernels import Window

_LEAST = 1 << 22  # multiplications from which on machine code is worth its making
_MOST = 512  # shapes that have a kernel

_seen: dict[tuple, Any] = {}  # by shape: 1 after the first call, then what makes the kernel


def kernel_for(key: tuple, build: Callable[[], Any]) -> Any:
    """The function of a shape's kernel, or None."""
    found = _seen.get(key)
    if found is None:
        if len(_seen) < _MOST:
            _seen[key] = 1
        return None
    from ..native.eager import kernel_asked_for

    return kernel_asked_for(key, build)


def run_kernel(function: Any, arrays: Sequence[Array]) -> None:
    """Runs a kernel on the memory of arrays, one for each buffer."""
    from ..native.pool import run

    cells = (ctypes.c_int64 * len(arrays))(*[a.ctypes.data for a in arrays])
    run(function.address, ctypes.addressof(cells))


def _fits(x: Array, w: Array, window: Window, groups: int, count: int) -> bool:
    """Whether a convolution of `count` multiplications is for machine code."""
    return (
        count >= _LEAST and x.__class__ is np.ndarray and w.__class__ is np.ndarray
        and x.dtype.char in "fd" and w.dtype.char == x.dtype.char and len(window.kernel) <= 2
        and (groups == 1 or w.shape[1] == 1 or min(w.shape[1], w.shape[0] // groups) >= 4)
    )  # fmt: skip


def _builders(groups: int, each: int) -> Any:
    """What makes the kernels; `each`: input channels of a group."""
    from ..native.kernels import conv, depthwise

    return depthwise if groups > 1 and each == 1 else conv


def _laid_out(groups: int, each: int, *arrays: Array) -> list[tuple[Array, bool]]:
    """Each array, and whether its channels are innermost; depthwise kernels have rows there."""
    if groups > 1 and each == 1:
        return [(np.ascontiguousarray(a), False) for a in arrays]
    return [laid_out(a) for a in arrays]


def laid_out(x: Array) -> tuple[Array, bool]:
    """An image with rows or channels innermost in memory, and whether it is channels."""
    if x.flags.c_contiguous:
        return x, False
    if x.ndim == 4 and x.transpose(0, 2, 3, 1).flags.c_contiguous:
        return x, True
    return np.ascontiguousarray(x), False


def empty(shape: Sequence[int], dtype: np.dtype, last: bool) -> Array:
    """An image whose channels are innermost in memory where `last`."""
    if not last:
        return np.empty(shape, dtype)
    n, c, h, w = shape
    return np.empty((n, h, w, c), dtype).transpose(0, 3, 1, 2)


def _two(shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes (a, b, ...) with two spatial axes, the first of them 1 where there was one."""
    return tuple(shape) if len(shape) == 4 else (*shape[:2], 1, *shape[2:])


def _geometry(x: tuple, w: tuple, y: tuple, kind: str, window: Window, groups: int,
              last: Sequence[bool]) -> Geometry:  # fmt: skip
    """`last`: whether x, the weight and y have their channels innermost."""
    from ..native.kernels.conv import Geometry, strides_of
    from ..native.loops import Type

    x, w, y = _two(x), _two(w), _two(y)
    one = len(window.kernel) == 1
    stride = (1, *window.stride) if one else window.stride
    dilation = (1, *window.dilation) if one else window.dilation
    before = [lo for lo, _ in window.padding]
    strides = [strides_of(shape, inner) for shape, inner in zip((x, w, y), last, strict=True)]
    return Geometry(
        Type.F32 if kind == "f" else Type.F64, x[0], x[1], (x[2], x[3]), w[0], (y[2], y[3]),
        (w[2], w[3]), (stride[0], stride[1]), (0, before[0]) if one else (before[0], before[1]),
        (dilation[0], dilation[1]), groups, strides[0], strides[1], strides[2],
    )  # fmt: skip


def forward(x: Array, w: Array, bias: Array | None, window: Window, groups: int) -> Array | None:
    """The convolution of x with w."""
    output = window.output(x.shape[2:])
    shape = (x.shape[0], w.shape[0], *output)
    if not _fits(x, w, window, groups, prod(shape) * prod(w.shape[1:])):
        return None
    (x, x_last), (w, w_last) = _laid_out(groups, w.shape[1], x, w)
    y_last = x_last or w_last
    last = (x_last, w_last, y_last)
    kind = ("conv forward", x.dtype.char, x.shape[1:], w.shape, window, groups, last, bias is None)

    def build(n: int) -> Any:
        made = _geometry((n, *x.shape[1:]), w.shape, (n, *shape[1:]), x.dtype.char, window,
                         groups, last)  # fmt: skip
        return _builders(groups, w.shape[1]).forward(made, bias is not None)

    y = empty(shape, x.dtype, y_last)
    constants = [w] if bias is None else [w, np.ascontiguousarray(bias)]
    there = served(kind, build, [x, *constants, y], range(1, 1 + len(constants)))
    return y if there else None


def backward_data(g: Array, w: Array, spatial: Sequence[int], window: Window, groups: int
                  ) -> Array | None:  # fmt: skip
    """The gradient of the input, whose spatial axes have the lengths `spatial`."""
    if not _fits(g, w, window, groups, g.size * prod(w.shape[1:])):
        return None
    shape = (g.shape[0], w.shape[1] * groups, *spatial)
    (g, g_last), (w, w_last) = _laid_out(groups, w.shape[1], g, w)
    x_last = g_last or w_last
    last = (x_last, w_last, g_last)
    kind = ("conv data", g.dtype.char, g.shape[1:], w.shape, shape[1:], window, groups, last)

    def build(n: int) -> Any:
        return _builders(groups, w.shape[1]).backward_data(
            _geometry((n, *shape[1:]), w.shape, (n, *g.shape[1:]), g.dtype.char, window, groups,
                      last)
        )  # fmt: skip

    made = empty(shape, g.dtype, x_last)
    return made if served(kind, build, [g, w, made], (1,)) else None


def backward_weight(x: Array, g: Array, window: Window, groups: int) -> Array | None:
    """The gradient of the weight."""
    shape = (g.shape[1], x.shape[1] // groups, *window.kernel)
    if len(window.kernel) > 2 or g.dtype.char != x.dtype.char or not _fits(
        x, np.broadcast_to(x.dtype.type(0), shape), window, groups, g.size * prod(shape[1:])
    ):
        return None
    (x, x_last), (g, g_last) = _laid_out(groups, shape[1], x, g)
    last = (x_last, x_last, g_last)
    kind = ("conv weight", x.dtype.char, x.shape[1:], g.shape[1:], window, groups, last)

    def build(n: int) -> Any:
        return _builders(groups, shape[1]).backward_weight(
            _geometry((n, *x.shape[1:]), shape, (n, *g.shape[1:]), x.dtype.char, window, groups,
                      last)
        )  # fmt: skip

    made = empty(shape, x.dtype, x_last and len(shape) == 4)
    return made if served(kind, build, [x, g, made], summed=True) else None
