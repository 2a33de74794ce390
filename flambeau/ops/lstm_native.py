"""The steps of an LSTM with machine code for all but the matrix products; None without it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..native.eager import Policy, kernel_when_ready
from ..native.pool import run

Array = np.ndarray

LEAST = 1 << 11  # elements of a state from which on machine code is worth its making
_SHARED = 1 << 15  # from which on threads share a step
_ready: dict[tuple, Any] = {}


def _kernel(name: str, kind: np.dtype, *settings: Any) -> Any:
    key = (name, kind, *settings)
    found = _ready.get(key)
    if found is not None:
        return found if Policy.allowed else None

    def build() -> Any:
        from ..native.kernels import cells
        from ..native.loops import Type

        return getattr(cells, name)(Type(kind.name), *settings)

    function = kernel_when_ready(("cells", *key), build)
    if function is None:
        return None
    count = len(function.kernel.buffers) + 3
    made = _ready[key] = (function.address, ctypes.c_int64 * count)
    return made


def _at(x: Array, row: int = 0) -> int:
    return x.__array_interface__["data"][0] + row * x.strides[0]


def _gates(x: Array, row: int = 0) -> list[int]:
    first, width = _at(x, row), x.strides[0] // 4
    return [first + k * width for k in range(4)]


def _call(found: Any, addresses: list[int], n: int, width: int) -> None:
    address, cells = found
    given = cells(*addresses, n, width, 4 * width)
    run(address, ctypes.addressof(given), 0 if n * width > _SHARED else 1)


def forward(
    windows: list[tuple[int, int]], gates: Array, h: Array, c: Array, turned: Array,
    states: tuple[Array, Array, Array],
) -> tuple[Array, Array] | None:  # fmt: skip
    """(h, c) after all steps, of one number of rows each; fills gates and states (y, c, tanh c)."""
    if c.size < LEAST or (found := _kernel("lstm_step", gates.dtype)) is None:
        return None
    y, cells, tanhs = states
    n, width = c.shape
    scratch = np.empty((n, 4 * width), gates.dtype)
    parts = _gates(scratch)
    for start, end in windows:
        np.dot(h, turned, scratch)
        _call(found, [*_gates(gates, start), *parts, _at(c), _at(cells, start), _at(tanhs, start),
                      _at(y, start)], n, width)  # fmt: skip
        h, c = y[start:end], cells[start:end]
    return h, c


def backward(
    windows: list[tuple[int, int]], states: tuple[Array, Array, Array], c: Array,
    g_y: Array | None, dh: Array, dc: Array, w_hh: Array,
) -> Array | None:  # fmt: skip
    """The cotangents of the gates of all steps; leaves those of the first states in dh and dc."""
    gates, cells, tanhs = states
    if c.size < LEAST:
        return None
    found = _kernel("lstm_step_backward", gates.dtype, g_y is not None)
    if found is None:
        return None
    n, width = c.shape
    d = np.empty(gates.shape, gates.dtype)
    for k in range(len(windows) - 1, -1, -1):
        start, end = windows[k]
        before = _at(cells, windows[k - 1][0]) if k else _at(c)
        part = [] if g_y is None else [_at(g_y, start)]
        _call(found, [_at(dh), *part, _at(dc), *_gates(gates, start), before, _at(tanhs, start),
                      *_gates(d, start)], n, width)  # fmt: skip
        np.dot(d[start:end], w_hh, dh)
    return d
