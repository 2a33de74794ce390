"""Tangents of recurrent layers, for all the steps of a layer.

Both ways follow from a cell's description in native/kernels/recurrent_cells.py: a kernel runs its
formula on dual numbers, and NumPy's steps multiply by its slopes, which are its adjoint of ones.
Products of whole sequences stay outside the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.backward import compute_adjoint_by_operators
from ...autograd.tangents import find_level, push_through
from ...tensor.tensor import Tensor
from ...tensor.windows.batched_window import is_example
from ..core.operator import OPERATORS, Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from .native import compute_input_sums, drop_missing, prepare
from .time_steps import Steps, clear_last_gate, combine_biases, run_in_operators

INPUTS = ("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
_LAYERS = {"lstm": "_lstm_layer", "gru": "_gru_layer", "tanh": "_rnn_layer", "relu": "_rnn_layer"}

Arrays = Mapping[str, Any]  # of a layer's inputs by name, None where absent
Results = tuple[list[Array], list[Array]]  # y and the last states, and their tangents


def push_layer(
    cell: str, tangents: Sequence[Tensor | None], primals: Sequence[Tensor | None],
    sizes: tuple[int, ...], reverse: bool, outputs: int,
) -> tuple[Tensor | None, ...]:
    """Return the tangents of a layer's outputs; operands in the order of INPUTS."""
    operands = [x for x in (*tangents, *primals) if x is not None]
    if any(find_level(x) is not None or is_example(x._array) for x in operands):
        return push_through(partial(_run_in_operators, cell, sizes, reverse), primals, tangents,
                            outputs)
    pushed = recurrent_tangent(*tangents, *primals, cell, sizes, reverse)
    return (*pushed, *(None,) * (outputs - len(pushed)))


def compute_with_tangents(
    cell: str, tangents: Sequence[Array | None], primals: Sequence[Array | None],
    sizes: tuple[int, ...], reverse: bool,
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return (h of every row, the last states) of a layer, and their tangents."""
    assert primals[0] is not None
    kind, steps = primals[0].dtype, Steps(sizes, reverse)
    inside = compute_dtype(kind)
    values, tangents_by_name = (
        {name: np.ascontiguousarray(a, inside)
         for name, a in zip(INPUTS, arrays, strict=True) if a is not None}
        for arrays in (primals, tangents))
    results = _run_in_one_kernel(cell, values, tangents_by_name, steps) \
        or _run_steps(cell, values, tangents_by_name, steps, sizes, reverse)
    y, y_t = (tuple([a.astype(kind, copy=False) for a in group]) for group in results)
    return y, y_t


def _run_in_one_kernel(cell: str, v: Arrays, t: Arrays, steps: Steps) -> Results | None:
    """Values and tangents from a kernel, or None without it."""
    from ...native.kernels.recurrent_cells import CELLS

    if "w_hr" in v:
        return None
    states = _list_states(cell)
    bias, bias_t = v.get("b_hh"), t.get("b_hh")
    inputs: dict[str, Any] = {f"{name}_t": t.get(name) for name in states}
    inputs["panels_t"] = t.get("w_hh")
    if CELLS[cell].apart:
        inner = slice(-v["h"].shape[1], None)
        inputs["bias"], inputs["bias_t"] = (None if b is None else b[inner] for b in (bias, bias_t))
        bias, bias_t = (
            clear_last_gate(b, CELLS[cell].gates) for b in (bias, bias_t))
    inputs = drop_missing({name: v[name] for name in states} | inputs)
    wanted = ("y", *states, "y_t", *(f"{name}_t" for name in states))
    layer = prepare(cell, steps, v["w_hh"], ("x", "x_t", *inputs), wanted, "tangent")
    if layer is None:
        return None
    inputs["x"] = compute_input_sums(v["x"], v["w_ih"], combine_biases(v.get("b_ih"), bias))
    inputs["x_t"] = _push_sums(v["x"], t.get("x"), v["w_ih"], t.get("w_ih"),
                               combine_biases(t.get("b_ih"), bias_t))
    results = layer(inputs)
    return ([results[name] for name in ("y", *states)],
            [results[f"{name}_t"] for name in ("y", *states)])


def _list_states(cell: str) -> tuple[str, ...]:
    from ...native.kernels.recurrent_cells import CELLS

    return ("h", "c") if CELLS[cell].carries else ("h",)


def _push_sums(x: Array, x_t: Array | None, w: Array, w_t: Array | None,
               bias_t: Array | None) -> Array:
    """Return the tangent of x @ w.T + bias, for the rows of all steps."""
    total = None
    if x_t is not None:
        total = compute_input_sums(x_t, w, bias_t)
    if w_t is not None:
        part = compute_input_sums(x, w_t, bias_t if total is None else None)
        total = part if total is None else np.add(total, part, out=total)
    if total is None:
        total = np.zeros((len(x), len(w)), w.dtype)
        if bias_t is not None:
            total += bias_t
    return total


def _run_steps(cell_name: str, v: Arrays, t: Arrays, steps: Steps, sizes: tuple[int, ...],
               reverse: bool) -> Results:
    """Values by the layer's body, then the tangents of all steps."""
    from ...native.kernels.recurrent_cells import CELLS, split_parts

    cell, states = CELLS[cell_name], _list_states(cell_name)
    y, *rest = _run_body(cell_name, v, sizes, reverse)
    last, stored = rest[: len(states)], rest[len(states) :]
    saved = {**dict(zip(cell.keeps, stored, strict=False)), "y": y}
    read: dict[str, Any] = {name: split_parts(saved[name], n) for name, n in cell.keeps.items()}
    if cell.before is not None:
        name, first = cell.before
        read["before"] = steps.previous(saved[name], v[first])
    pushed = _TangentSteps(cell, cell.measure_slopes(read), steps)
    pushed.add_sums(_push_sums(v["x"], t.get("x"), v["w_ih"], t.get("w_ih"), t.get("b_ih")),
                    _push_sums(steps.previous(y, v["h"]), None, v["w_hh"], t.get("w_hh"),
                               t.get("b_hh")) if "w_hh" in t or "b_hh" in t else None)
    y_t = pushed.run(_read_states(states, v, t), v["w_hh"], v.get("w_hr"),
                     np.dot(stored[-1], t["w_hr"].T) if "w_hr" in t else None)
    return [y, *last], [y_t, *pushed.last]


def _run_body(cell: str, values: Arrays, sizes: tuple[int, ...], reverse: bool) -> Sequence[Array]:
    """Return all results of the layer's body, with what it keeps for backward."""
    operator = OPERATORS[_LAYERS[cell]]
    options = {"sizes": sizes, "reverse": reverse, "keep": True, "relu": cell == "relu"}
    arguments = {**dict.fromkeys(INPUTS), **values, **options}
    results: Sequence[Array] = operator.body(*[arguments[name] for name in operator.names])
    return results


def _read_states(states: Sequence[str], v: Arrays, t: Arrays) -> list[Array]:
    """Return copies of the initial states' tangents, zeros where absent."""
    return [t[name].copy() if name in t else np.zeros_like(v[name]) for name in states]


class _TangentSteps:
    """The steps of a layer's tangents: each state's is a sum of slopes times tangents.

    `sums`: what the input and constants add to the tangents of each step's sums. `apart`: what
    they add to those of the new states where the input's sums have slopes of their own.
    """

    def __init__(self, cell: Any, slopes: Mapping[str, Any], steps: Steps) -> None:
        self.cell, self.slopes, self.steps = cell, slopes, steps
        self.by_sums = np.stack([np.stack(of["d"], 1) for of in slopes.values()])
        self.sums: Array | None = None
        self.apart: Array | None = None
        self.last: list[Array] = []

    def add_sums(self, from_x: Array, from_h: Array | None) -> None:
        """Set what does not depend on the states' tangents."""
        self.sums = from_x if from_h is None else from_h
        if self.cell.apart:
            self.sums = from_h
            parts = from_x.reshape(len(from_x), self.cell.gates, -1)
            self.apart = np.stack([np.add.reduce(parts * np.stack(of["dx"], 1), 1)
                                   for of in self.slopes.values()])
        elif from_h is not None:
            self.sums = from_x + from_h

    def run(self, states: list[Array], w_hh: Array, w_hr: Array | None,
            projected: Array | None) -> Array:
        """Push the tangents of the initial states through all steps; return those of y.

        `projected`: what the tangent of `w_hr` adds to them.
        """
        steps, gates, count = self.steps, self.cell.gates, len(self.slopes)
        width, kind = len(w_hh) // gates, w_hh.dtype
        by_states = [(np.stack([of[f"d{name}"][0] for of in self.slopes.values()]), state)
                     for name, state in zip(self.slopes, states, strict=True)
                     if f"d{name}" in self.slopes["h"]]
        turned = np.ascontiguousarray(w_hh.T)
        whole = np.empty((count, steps.rows, width), kind)
        y = whole[0] if w_hr is None else np.empty((steps.rows, len(w_hr)), kind)
        scratch = np.empty((steps.batch, len(w_hh)), kind)
        terms = np.empty((count, steps.batch, gates, width), kind)
        for start, end in steps.windows:
            n = end - start
            sums = np.dot(states[0][:n], turned, scratch[:n])
            if self.sums is not None:
                sums += self.sums[start:end]
            np.multiply(self.by_sums[:, start:end], sums.reshape(n, gates, width), terms[:, :n])
            new = np.add.reduce(terms[:, :n], 2, out=whole[:, start:end])
            for slope, state in by_states:
                new += slope[:, start:end] * state[:n]
            if self.apart is not None:
                new += self.apart[:, start:end]
            if w_hr is not None:
                np.dot(new[0], w_hr.T, y[start:end])
            if projected is not None:
                y[start:end] += projected[start:end]
            for state, value in zip(states, (y[start:end], *new[1:]), strict=True):
                state[:n] = value
        self.last = states
        return y


@opaque(layout=Layout.FREE, name="_recurrent_tangent", node="RecurrentTangentBackward0", expose=(),
        ref=None, samples=None)
def recurrent_tangent(
    x_t: Array | None, h_t: Array | None, c_t: Array | None, w_ih_t: Array | None,
    w_hh_t: Array | None, b_ih_t: Array | None, b_hh_t: Array | None, w_hr_t: Array | None,
    x: Array, h: Array, c: Array | None, w_ih: Array, w_hh: Array, b_ih: Array | None,
    b_hh: Array | None, w_hr: Array | None, cell: str, sizes: Any, reverse: bool,
) -> tuple[Array, ...]:
    """Return the tangents of h of every row and of the last states."""
    tangents = (x_t, h_t, c_t, w_ih_t, w_hh_t, b_ih_t, b_hh_t, w_hr_t)
    primals = (x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)
    return compute_with_tangents(cell, tangents, primals, sizes, reverse)[1]


@recurrent_tangent.vjp
def _(
    gs: tuple[Tensor | None, ...], x_t: Tensor | None, h_t: Tensor | None, c_t: Tensor | None,
    w_ih_t: Tensor | None, w_hh_t: Tensor | None, b_ih_t: Tensor | None, b_hh_t: Tensor | None,
    w_hr_t: Tensor | None, x: Tensor, h: Tensor, c: Tensor | None, w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None, b_hh: Tensor | None, w_hr: Tensor | None, cell: str, sizes: Any,
    reverse: bool, needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    tangents = (x_t, h_t, c_t, w_ih_t, w_hh_t, b_ih_t, b_hh_t, w_hr_t)
    inputs = (*tangents, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)

    def push(*operands: Any) -> tuple[Any, ...]:
        return push_through(partial(_run_in_operators, cell, sizes, reverse), operands[8:],
                            operands[:8], len(gs))

    return compute_adjoint_by_operators(push, inputs, gs, needs)


def _run_in_operators(cell: str, sizes: tuple[int, ...], reverse: bool, *inputs: Any) -> tuple:
    """Return a layer's y and last states in recorded operators."""
    x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = inputs
    states = (h,) if c is None else (h, c)
    return run_in_operators(cell, x, states, w_ih, w_hh, b_ih, b_hh, sizes, reverse, w_hr)
