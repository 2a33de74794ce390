"""The cells of recurrent layers: a step's new states from its sums, and the backward pass.

A cell's product with the previous state has `gates` parts of the layer's width, in PyTorch's
order. Sums come from the input (`x`) and from the previous state (`s`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..loop_ir.expression_builder import Dual, Value
from ..target.machine import host

Values = dict[str, list[Any]]  # of a kernel's Values, symbols, arrays or tensors


@dataclass(frozen=True)
class Cell:
    """A kind of cell.

    `keeps`: the number of parts of each result, besides y, that forward saves for backward.
    `carries`: whether there is a second, elementwise state, c. `before`: the previous step's
    value that backward reads: its name among the results, and the initial state's. `partly`:
    whether the previous state enters the new one other than by the product. `apart`: whether the
    input and recurrent sums have different cotangents.
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
        """Return how many parts of the layer's width a sequence of this name has."""
        counts = {"x": self.gates, "d": self.gates, "dx": self.gates, **self.keeps}
        return counts.get(name.removesuffix("_t"), 1)

    def measure_slopes(self, values: Mapping[str, Any]) -> dict[str, Values]:
        """Return each new state's derivatives: by sums (`d`, and `dx` where the input's differ) and
        by old states (`dh`, `dc`). A step's Jacobian is diagonal: the adjoint of ones holds it.

        `values`: what `backward` reads but for cotangents, as arrays.
        """
        kind = values[next(iter(self.keeps))][0].dtype.type
        states = ("h", "c") if self.carries else ("h",)
        return {name: self.backward({**values, **{f"d{s}": kind(s == name) for s in states}})
                for name in states}


def _tanh(x: Any) -> Any:
    return x.tanh() if hasattr(type(x), "tanh") else np.tanh(x)  # a tensor records its own


def _sigmoid(x: Any) -> Any:
    if hasattr(type(x), "sigmoid"):
        return x.sigmoid()
    if isinstance(x, Dual):  # the operations' own tangent is 0 * inf where exp overflows
        y = _sigmoid(Value(x.expression))
        return Dual(y, x.tangent * (y * (1 - y)))
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
    z = v["x"][0] + v["s"][0]
    return {"y": [z.relu() if hasattr(type(z), "relu") else np.maximum(z, 0)]}


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


# ------------------------------------ step by step: on NumPy's arrays, and on symbols in lowering


def split_parts(x: Any, count: int) -> list[Any]:
    """Split the last axis into equal parts."""
    width = x.shape[-1] // count
    return [x[..., k * width : (k + 1) * width] for k in range(count)] if count > 1 else [x]


def join_parts(parts: Sequence[Any]) -> Any:
    """Inverse of `split_parts`."""
    return np.concatenate(parts, -1) if len(parts) > 1 else parts[0]


def first_rows(state: Any, n: int) -> Any:
    """Return the rows of a state that a step of n rows continues."""
    return state if state.shape[0] == n else state[:n]


def replace_first_rows(state: Any, new: Any) -> Any:
    """Replace a state's first rows; the other sequences are already finished."""
    n = new.shape[0]
    return new if state.shape[0] == n else np.concatenate([new, state[n:]], 0)


def walk_forward(
    cell: Cell, sums: Sequence[Any], states: Mapping[str, Any], w: Any,
    constants: Mapping[str, Any], w_hr: Any = None,
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Run a layer's steps; return their results by name, in order of execution, and final states.

    `sums`: each step's input products. With `w_hr`, h is projected and "whole" holds the
    unprojected value.
    """
    results: dict[str, list[Any]] = {}
    state, turned = dict(states), w.T
    for part in sums:
        state_rows = {name: first_rows(x, part.shape[0]) for name, x in state.items()}
        products = np.matmul(state_rows["h"], turned)
        new = dict(cell.forward({**state_rows, **constants, "x": split_parts(part, cell.gates),
                                 "s": split_parts(products, cell.gates)}))
        if w_hr is not None:
            new["whole"], new["y"] = new["y"], [np.matmul(new["y"][0], w_hr.T)]
        state["h"] = replace_first_rows(state["h"], new["y"][0])
        if cell.carries:
            state["c"] = replace_first_rows(state["c"], new["cells"][0])
        for name, parts in new.items():
            results.setdefault(name, []).append(join_parts(parts))
    return results, state


def walk_backward(
    cell: Cell, saved: Mapping[str, Sequence[Any]], before: Sequence[Any] | None,
    gy: Sequence[Any] | None, states: Mapping[str, Any], w: Any, w_hr: Any = None,
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return each step's cotangents by name, in forward order, and those of the initial states.

    `saved`: the values the cell kept of each step, by name; `before`: those it reads of the step
    before; `states`: dh and dc, the cotangents of the final states. "projected" is the cotangent
    that `w_hr` multiplies.
    """
    results: dict[str, list[Any]] = {}
    state = dict(states)
    for t in reversed(range(len(next(iter(saved.values()))))):
        values: dict[str, Any] = {name: split_parts(saved[name][t], n)
                                  for name, n in cell.keeps.items()}
        rows = next(iter(values.values()))[0].shape[0]
        state_rows = {name: first_rows(x, rows) for name, x in state.items()}
        if gy is not None:
            state_rows["dh"] = state_rows["dh"] + gy[t]
        if w_hr is not None:
            results.setdefault("projected", []).insert(0, state_rows["dh"])
            state_rows["dh"] = np.matmul(state_rows["dh"], w_hr)
        if before is not None:
            state_rows["before"] = before[t]
        new = cell.backward({**values, **state_rows})
        d = join_parts(new["d"])
        product = np.matmul(d, w)
        dh = product + new["dh"][0] if cell.partly else product
        state["dh"] = replace_first_rows(state["dh"], dh)
        if cell.carries:
            state["dc"] = replace_first_rows(state["dc"], new["dc"][0])
        for name in ("d", "dx"):
            if name in new:
                results.setdefault(name, []).insert(0, d if name == "d" else join_parts(new[name]))
    return results, state
