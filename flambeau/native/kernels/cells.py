"""One step of a recurrent layer after its matrix product, forward and backward.

Gates lie side by side in rows of `stride` elements, so each of the four is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..loops import Affine, Buffer, Index, Kernel, Kind, Load, Loop, Size, Statement, Store, Type
from .value import Value


class _Step:
    """Rows of `width` elements; those of gates are `stride` apart."""

    def __init__(self, type: Type) -> None:
        self.type = type
        row, column = Index("row"), Index("column")
        self.row, self.column = row, column
        self.sizes = [Size("rows"), Size("width"), Size("stride")]
        self.near = Affine(0, ((row, self.sizes[1]), (column, 1)))
        self.far = Affine(0, ((row, self.sizes[2]), (column, 1)))
        self.buffers: list[Buffer] = []

    def read(self, names: str, at: Affine) -> list[Value]:
        """Arguments, as their values."""
        return [Value(Load(b, at)) for b in self.write(names)]

    def write(self, names: str) -> list[Buffer]:
        """Arguments."""
        made = [Buffer(self.type, name) for name in names.split()]
        self.buffers += made
        return made

    def kernel(self, name: str, stores: Sequence[tuple[Buffer, Affine, Value]]) -> Kernel:
        """The kernel that writes these; what is worked on in place comes after what reads it."""
        body: list[Statement] = [Store(b, at, v.expression) for b, at, v in stores]
        inner = Loop(self.column, self.sizes[1], body, Kind.LANES)
        outer = Loop(self.row, self.sizes[0], [inner], Kind.PARALLEL)
        return Kernel(name, self.buffers, [outer], self.sizes)


def _sigmoid_of_double(x: Value) -> Value:
    return np.tanh(x) * 0.5 + 0.5  # type: ignore[call-overload, no-any-return]


def lstm_step(type: Type) -> Kernel:
    """Gates i f g o in place (all but g halved) plus si sf sg so, c; new c, its tanh, h."""
    s = _Step(type)
    gates = s.write("i f g o")
    sums = [Value(Load(b, s.far)) for b in gates]
    sums = [a + b for a, b in zip(sums, s.read("si sf sg so", s.far), strict=True)]
    (c,) = s.read("c", s.near)
    new, turned, h = s.write("new tanh h")
    i, f, o = (_sigmoid_of_double(sums[k]) for k in (0, 1, 3))
    g = np.tanh(sums[2])  # type: ignore[call-overload]
    cell = f * c + i * g
    t = np.tanh(cell)  # type: ignore[call-overload]
    stores = [(new, s.near, cell), (turned, s.near, t), (h, s.near, o * t)]
    stores += [(b, s.far, v) for b, v in zip(gates, (i, f, g, o), strict=True)]
    return s.kernel("lstm_step", stores)


def lstm_step_backward(type: Type, with_y: bool) -> Kernel:
    """dh, (gy), dc in place, gates i f g o, c before, tanh of c; the cotangents of the gates."""
    s = _Step(type)
    (total,) = s.read("dh", s.near)
    if with_y:
        total = total + s.read("gy", s.near)[0]
    (cell,) = s.write("dc")
    i, f, g, o = s.read("i f g o", s.far)
    before, t = s.read("before tanh", s.near)
    made = s.write("di df dg do")
    dc = Value(Load(cell, s.near)) + total * (o * (1 - t * t))
    found = (dc * (i * (1 - i) * g), dc * (f * (1 - f) * before), dc * (i * (1 - g * g)),
             total * (o * (1 - o) * t))  # fmt: skip
    stores = [(b, s.far, v) for b, v in zip(made, found, strict=True)]
    return s.kernel("lstm_step_backward", [*stores, (cell, s.near, dc * f)])
