"""The cells of recurrent layers: what becomes of a step's sums, and the same backward.

A cell's product with the last state has `gates` parts of the layer's width, in PyTorch's order.
Sums come from the input (`x`) and from the last state (`s`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..target.machine import host
from .expression_builder import Value

Values = dict[str, list[Any]]  # of a kernel's Values, symbols or arrays, whichever came in


@dataclass(frozen=True)
class Cell:
    """A kind of cell.

    `keeps`: what forward gives besides y, and backward reads, with how many parts. `carries`:
    whether there is a second state, c, that stays with each unit. `before`: what of the step
    before backward reads: its name in the results, and that of the first state. `partly`: whether
    the last state has part in the new one otherwise than by the product. `apart`:
    whether the sums' two halves have cotangents of their own.
    """

    name: str
    gates: int
    forward: Callable[[Mapping[str, Any]], Values]
    backward: Callable[[Mapping[str, Any]], Values]
    keeps: Mapping[str, int]
    carries: bool = False
    before: tuple[str, str] | None = None
    partly: bool = False
    apart: bool = False

    def parts(self, name: str) -> int:
        """How many parts of the layer's width a sequence of this name has."""
        many = {"x": self.gates, "d": self.gates, "dx": self.gates, **self.keeps}
        return many.get(name, 1)


def _tanh(x: Any) -> Any:
    return np.tanh(x)


def _sigmoid(x: Any) -> Any:
    if isinstance(x, Value) and host().vector_bytes < 64:  # where tanh is no table, exp is shorter
        return 1 / (np.exp(-x) + 1)
    return _tanh(x * 0.5) * 0.5 + 0.5


def _lstm(v: Mapping[str, Any]) -> Values:
    i, f, g, o = (a + b for a, b in zip(v["x"], v["s"], strict=True))
    i, f, g, o = _sigmoid(i), _sigmoid(f), _tanh(g), _sigmoid(o)
    c = f * v["c"] + i * g
    return {"y": [o * _tanh(c)], "gates": [i, f, g, o], "cells": [c]}


def _lstm_backward(v: Mapping[str, Any]) -> Values:
    (i, f, g, o), (c,), dh = v["gates"], v["cells"], v["dh"]
    t = _tanh(c)
    dc = v["dc"] + dh * (o * (1 - t * t))
    d = [dc * (i * (1 - i) * g), dc * (f * (1 - f) * v["before"]), dc * (i * (1 - g * g)),
         dh * (o * (1 - o) * t)]
    return {"d": d, "dc": [dc * f]}


def _gru(v: Mapping[str, Any]) -> Values:
    (xr, xz, xn), (sr, sz, inner), h = v["x"], v["s"], v["h"]
    if "bias" in v:
        inner = inner + v["bias"]
    r, z = _sigmoid(xr + sr), _sigmoid(xz + sz)
    n = _tanh(xn + r * inner)
    return {"y": [(h - n) * z + n], "gates": [r, z, n], "inner": [inner]}


def _gru_backward(v: Mapping[str, Any]) -> Values:
    (r, z, n), (inner,), dh = v["gates"], v["inner"], v["dh"]
    dn = dh * (1 - z) * (1 - n * n)
    d_inner = dn * r
    dr = d_inner * (1 - r) * inner
    dz = dh * (v["before"] - n) * ((1 - z) * z)
    return {"d": [dr, dz, d_inner], "dx": [dr, dz, dn], "dh": [dh * z]}


def _tanh_step(v: Mapping[str, Any]) -> Values:
    return {"y": [_tanh(v["x"][0] + v["s"][0])]}


def _tanh_backward(v: Mapping[str, Any]) -> Values:
    (y,) = v["y"]
    return {"d": [v["dh"] * (1 - y * y)]}


def _relu_step(v: Mapping[str, Any]) -> Values:
    return {"y": [np.maximum(v["x"][0] + v["s"][0], 0)]}


def _relu_backward(v: Mapping[str, Any]) -> Values:
    return {"d": [np.where(v["y"][0] > 0, v["dh"], 0)]}


CELLS = {cell.name: cell for cell in (
    Cell("lstm", 4, _lstm, _lstm_backward, {"gates": 4, "cells": 1}, carries=True,
         before=("cells", "c")),
    Cell("gru", 3, _gru, _gru_backward, {"gates": 3, "inner": 1}, before=("y", "h"), partly=True,
         apart=True),
    Cell("tanh", 1, _tanh_step, _tanh_backward, {"y": 1}),
    Cell("relu", 1, _relu_step, _relu_backward, {"y": 1}),
)}
