"""LSTM, GRU and Elman layers over time, forward and backward, from their cells' formulas.

One large product computes the inputs' part of all gates. The steps become one kernel if all have
the same number of rows, large enough to pay for the weights that every thread reads in every step.
Otherwise each step is lowered separately. A batch of sequences is a matrix of rows, ordered by time
step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ....native.kernels.recurrent import fits_one_kernel
from ....native.kernels.recurrent_cells import (
    CELLS, Cell, first_rows, replace_first_rows, walk_backward, walk_forward,
)
from ....native.runtime.thread_pool import threads
from ....ops.core.promotion import compute_dtype
from ....ops.recurrent.time_steps import Steps
from ...fusion.fusion_group import MOVEMENTS
from ...ir.graph import Node, Op
from ...ir.recurrence import build_recurrence, build_recurrence_gradient
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering

Sizes = tuple[int, ...]
Values = Mapping[str, Any]  # symbols by name; None where absent

_KERNEL_DTYPES = ("float32", "float64")


class _Layer:
    """One direction of a layer: its cell and its steps. Subclasses compute the steps.

    `result_dtype` is the dtype of inputs and results, `inner_dtype` that of the computation.
    """

    def __init__(self, name: str, steps: Steps, dtype: np.dtype) -> None:
        self.name, self.cell, self.steps = name, CELLS[name], steps
        self.result_dtype, self.inner_dtype = dtype, compute_dtype(dtype)
        self.count, self.rows = len(steps.windows), steps.batch
        self.reverse = self.count > 1 and steps.windows[0][0] != 0

    def cast(self, values: Values) -> dict[str, Any]:
        """Convert values to the dtype of the computation."""
        return {name: None if x is None else x.astype(self.inner_dtype, copy=False)
                for name, x in values.items()}

    def round(self, *values: Any) -> tuple[Any, ...]:
        """Convert values to the dtype of the results."""
        return tuple(None if x is None else x.astype(self.result_dtype) for x in values)

    def forward(
        self, sums: Symbol, states: Values, w: Symbol, bias: Any, w_hr: Any, keeps: Sequence[str]
    ) -> tuple[dict[str, Symbol], list[Symbol]]:
        """Return y and the values kept for backward, as rows by name, and the last states."""
        raise NotImplementedError

    def backward(
        self, cotangents: Values, states: Values, saved: Values, w: Symbol, w_hr: Any,
        needs: Collection[str],
    ) -> tuple[dict[str, Any], list[Any]]:
        """Return cotangents: of the gates' sums, as rows by name, and of the initial states.

        `cotangents`: gy, dh, dc. `saved`: y and the values that `forward` returned for backward.
        """
        raise NotImplementedError

    def weight_gradient(self, d: Symbol, y: Symbol, h: Symbol) -> Symbol:
        """Return the cotangent of the recurrent weights, given `d`, that of the gates' sums."""
        raise NotImplementedError


class _KernelLayer(_Layer):
    """All steps run in one kernel."""

    def forward(
        self, sums: Symbol, states: Values, w: Symbol, bias: Any, w_hr: Any, keeps: Sequence[str]
    ) -> tuple[dict[str, Symbol], list[Symbol]]:
        inputs = {"x": self._stack_steps(sums), **states, "w": w, "bias": bias}
        stacked = {name: self._build_result(build_recurrence, inputs, name)
                   for name in ("y", *keeps)}
        final = [self._select_last(stacked["y"])]
        if self.cell.carries:
            final.append(self._select_last(stacked["cells"]) if keeps
                         else self._build_result(build_recurrence, inputs, "c"))
        return {name: self._flatten_steps(x) for name, x in stacked.items()}, final

    def backward(
        self, cotangents: Values, states: Values, saved: Values, w: Symbol, w_hr: Any,
        needs: Collection[str],
    ) -> tuple[dict[str, Any], list[Any]]:
        before = self.cell.before
        stacked = {name: self._stack_steps(x) for name, x in saved.items()}
        inputs = {"w": w, **{name: stacked[name] for name in self.cell.keeps},
                  "gy": self._stack_steps(cotangents["gy"]),
                  **{f"d{name}": cotangents[f"d{name}"] for name in states}}
        if before:
            inputs |= {"previous": stacked[before[0]], "first": states[before[1]]}
        build = partial(self._build_result, build_recurrence_gradient, inputs)
        of_sums = {name: self._flatten_steps(build(name))
                   for name in ("d", "dx") if name == "d" or self.cell.apart}
        return of_sums, [build(f"d{name}") if name in needs else None for name in states]

    def weight_gradient(self, d: Symbol, y: Symbol, h: Symbol) -> Symbol:
        n = self.rows
        later, first = (d[:-n], d[-n:]) if self.reverse else (d[n:], d[:n])
        gradient = np.matmul(later.T, y[n:] if self.reverse else y[:-n])
        return gradient if _is_absent_or_zero(h) else gradient + np.matmul(first.T, h)

    def _stack_steps(self, x: Any) -> Any:
        """Reshape rows to (steps, rows per step, columns)."""
        return None if x is None else x.reshape(self.count, self.rows, x.shape[-1])

    def _flatten_steps(self, x: Symbol) -> Symbol:
        """Reshape steps to rows."""
        return x.reshape(self.count * self.rows, x.shape[-1])

    def _select_last(self, x: Symbol) -> Symbol:
        """Return the state after the last step."""
        return x[0] if self.reverse else x[self.count - 1]

    def _build_result(self, build: Callable[..., Node], inputs: Values, of: str) -> Symbol:
        """Build the node of one result (`of`) of the kernel."""
        present = {name: None if _is_absent_or_zero(x) else x.node for name, x in inputs.items()}
        return wrap_node(build(self.name, present, self.reverse, of))


class _StepwiseLayer(_Layer):
    """Each step is lowered separately."""

    def forward(
        self, sums: Symbol, states: Values, w: Symbol, bias: Any, w_hr: Any, keeps: Sequence[str]
    ) -> tuple[dict[str, Symbol], list[Symbol]]:
        constants = {} if bias is None else {"bias": bias}
        steps, last = walk_forward(self.cell, self._split_steps(sums), states, w, constants, w_hr)
        joined = {name: self._join_steps(steps[name]) for name in ("y", *keeps)}
        return joined, list(last.values())

    def backward(
        self, cotangents: Values, states: Values, saved: Values, w: Symbol, w_hr: Any,
        needs: Collection[str],
    ) -> tuple[dict[str, Any], list[Any]]:
        before = self.cell.before
        last = {f"d{name}": np.zeros_like(state) if cotangents[f"d{name}"] is None
                else cotangents[f"d{name}"] for name, state in states.items()}
        steps, first = walk_backward(
            self.cell, {name: self._split_steps(saved[name]) for name in self.cell.keeps},
            None if before is None else self._states_before(saved[before[0]], states[before[1]]),
            self._split_steps(cotangents["gy"]), last, w, w_hr)
        joined = {name: self._join_steps(parts) for name, parts in steps.items()}
        return joined, [first[f"d{name}"] if name in needs else None for name in states]

    def weight_gradient(self, d: Symbol, y: Symbol, h: Symbol) -> Symbol:
        return np.matmul(d.T, self._join_steps(self._states_before(y, h)))

    def _split_steps(self, x: Any) -> Any:
        """Split rows into steps, in the order they are computed."""
        return None if x is None else [x[start:end] for start, end in self.steps.windows]

    def _join_steps(self, parts: Sequence[Symbol]) -> Symbol:
        """Concatenate steps, given in the order they are computed, in row order."""
        return np.concatenate(parts[::-1] if self.reverse else parts, 0)

    def _states_before(self, rows: Symbol, first: Symbol) -> list[Symbol]:
        """Return the state before each step, in the order computed, from those after the steps."""
        state, result = first, []
        for part in self._split_steps(rows):
            result.append(first_rows(state, part.shape[0]))
            state = replace_first_rows(state, part)
        return result


def _create_layer(
    name: str, dtype: np.dtype, width: int, sizes: Sizes, reverse: bool, w_hr: Any = None
) -> _Layer:
    """Return the layer that computes the steps in the faster way."""
    steps = Steps(sizes, reverse)
    is_kernel = w_hr is None and _fits_kernel(name, steps, compute_dtype(dtype), width)
    return (_KernelLayer if is_kernel else _StepwiseLayer)(name, steps, dtype)


def _fits_kernel(name: str, steps: Steps, dtype: np.dtype, width: int) -> bool:
    if not steps.dense or len(steps.windows) < 2 or not steps.batch or not width:
        return False
    weight_bytes = CELLS[name].gates * width * width * dtype.itemsize
    return dtype.name in _KERNEL_DTYPES and fits_one_kernel(weight_bytes, steps.batch, threads())


def _is_absent_or_zero(x: Any) -> bool:
    """Return whether a value is absent or a constant zero."""
    if x is None:
        return True
    node = x.node
    while node.op in MOVEMENTS:
        node = node.inputs[0]
    return bool(node.op is Op.CONSTANT and node.value == 0)


def _sum_inputs(cell: Cell, x: Symbol, w: Symbol, b_ih: Any, b_hh: Any) -> tuple[Symbol, Any]:
    """Return the inputs' part of the gates and the bias to add in each step, or None.

    Only the GRU has such a bias: its new gate, the last of three, scales `b_hh` by the reset gate.
    """
    sums, step_bias, biases = np.matmul(x, w.T), None, (b_ih, b_hh)
    if cell.apart and b_hh is not None:
        new_gate = b_hh.shape[0] // 3 * 2
        without_new = np.ones(b_hh.shape[0], x.dtype)
        without_new[new_gate:] = 0
        step_bias, biases = b_hh[new_gate:], (b_hh * without_new, b_ih)
    present = [b for b in biases if b is not None]
    return (sums + sum(present[1:], present[0]) if present else sums), step_bias


def _lower_layer(
    layer: _Layer, x: Symbol, states: Values, weights: Values, keep: bool
) -> tuple[Symbol, ...]:
    """Return a layer operator's results: y, the last states, and the values that backward reads."""
    operands, states = layer.cast({"x": x, **weights}), layer.cast(states)
    sums, bias = _sum_inputs(
        layer.cell, operands["x"], operands["w_ih"], operands["b_ih"], operands["b_hh"])
    w_hr = operands.get("w_hr")
    keeps = (*layer.cell.keeps, *(() if w_hr is None else ("whole",))) if keep else ()
    results, last = layer.forward(sums, states, operands["w_hh"], bias, w_hr, keeps)
    return (*layer.round(results["y"], *last), *(results[name] for name in keeps))


def _lower_adjoint(
    layer: _Layer, cotangents: Values, x: Symbol, states: Values, weights: Values, saved: Values,
    needs: Collection[str],
) -> dict[str, Any]:
    """Return the needed cotangents of a layer's operands, by name."""
    operands, states = layer.cast({"x": x, **weights}), layer.cast(states)
    saved = {**saved, **layer.cast({"y": saved["y"]})}
    w_hr = operands.get("w_hr")
    sums, of_states = layer.backward(
        layer.cast(cotangents), states, saved, operands["w_hh"], w_hr, needs)
    from_h = sums["d"]
    from_x = sums.get("dx", from_h)
    gradients: dict[str, Callable[[], Any]] = {
        "x": lambda: np.matmul(from_x, operands["w_ih"]),
        "w_ih": lambda: np.matmul(from_x.T, operands["x"]),
        "w_hh": lambda: layer.weight_gradient(from_h, saved["y"], states["h"]),
        "b_ih": lambda: np.sum(from_x, 0), "b_hh": lambda: np.sum(from_h, 0),
        "w_hr": lambda: np.matmul(sums["projected"].T, saved["whole"]),
    }
    result = {name: layer.round(compute())[0]
              for name, compute in gradients.items() if name in needs}
    return result | dict(zip(states, layer.round(*of_states), strict=True))


# ------------------------------------------------------------------------------ operators


def _select_needed(names: str, needs: Sequence[bool]) -> set[str]:
    """Return the names, of a list separated by spaces, that are needed."""
    return {name for name, need in zip(names.split(), needs, strict=True) if need}


def _merge_biases(needed: set[str]) -> set[str]:
    """Replace both biases by b_ih: their gradients are equal where the cell adds both at once."""
    return needed - {"b_hh"} | {"b_ih"} if needed & {"b_ih", "b_hh"} else needed


@lowering("_lstm_layer")
def _lstm_layer(
    x: Symbol, h: Symbol, c: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None,
    b_hh: Any = None, w_hr: Any = None, sizes: Sizes = (), reverse: bool = False, keep: bool = True,
) -> tuple[Symbol, ...]:
    layer = _create_layer("lstm", x.dtype, c.shape[1], sizes, reverse, w_hr)
    weights = {"w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh, "w_hr": w_hr}
    return _lower_layer(layer, x, {"h": h, "c": c}, weights, keep)


@lowering("_lstm_adjoint")
def _lstm_adjoint(
    g_y: Any, g_h: Any, g_c: Any, x: Symbol, h: Symbol, c: Symbol, w_ih: Symbol, w_hh: Symbol,
    w_hr: Any, y: Symbol, gates: Symbol, cells: Symbol, whole: Any, sizes: Sizes, reverse: bool,
    needs: Sequence[bool],
) -> tuple[Any, ...]:
    layer = _create_layer("lstm", x.dtype, c.shape[1], sizes, reverse, w_hr)
    needed = _merge_biases(_select_needed("x h c w_ih w_hh b_ih b_hh w_hr", needs))
    result = _lower_adjoint(
        layer, {"gy": g_y, "dh": g_h, "dc": g_c}, x, {"h": h, "c": c},
        {"w_ih": w_ih, "w_hh": w_hh, "w_hr": w_hr},
        {"gates": gates, "cells": cells, "y": y, "whole": whole}, needed)
    return tuple(map(result.get, ("x", "h", "c", "w_ih", "w_hh", "b_ih", "w_hr")))


@lowering("_gru_layer")
def _gru_layer(
    x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None, b_hh: Any = None,
    sizes: Sizes = (), reverse: bool = False, keep: bool = True,
) -> tuple[Symbol, ...]:
    layer = _create_layer("gru", x.dtype, h.shape[1], sizes, reverse)
    weights = {"w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    return _lower_layer(layer, x, {"h": h}, weights, keep)


@lowering("_gru_adjoint")
def _gru_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, y: Symbol, gates: Symbol,
    inner: Symbol, sizes: Sizes, reverse: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:
    layer = _create_layer("gru", x.dtype, h.shape[1], sizes, reverse)
    names = "x h w_ih w_hh b_ih b_hh"
    result = _lower_adjoint(
        layer, {"gy": g_y, "dh": g_h}, x, {"h": h}, {"w_ih": w_ih, "w_hh": w_hh},
        {"gates": gates, "inner": inner, "y": y}, _select_needed(names, needs))
    return tuple(map(result.get, names.split()))


@lowering("_rnn_layer")
def _rnn_layer(
    x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None, b_hh: Any = None,
    sizes: Sizes = (), reverse: bool = False, relu: bool = False,
) -> tuple[Symbol, ...]:
    layer = _create_layer("relu" if relu else "tanh", x.dtype, h.shape[1], sizes, reverse)
    weights = {"w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    return _lower_layer(layer, x, {"h": h}, weights, keep=False)


@lowering("_rnn_adjoint")
def _rnn_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, y: Symbol, sizes: Sizes,
    reverse: bool, relu: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:
    layer = _create_layer("relu" if relu else "tanh", x.dtype, h.shape[1], sizes, reverse)
    needed = _merge_biases(_select_needed("x h w_ih w_hh b_ih b_hh", needs))
    result = _lower_adjoint(layer, {"gy": g_y, "dh": g_h}, x, {"h": h},
                            {"w_ih": w_ih, "w_hh": w_hh}, {"y": y}, needed)
    return tuple(map(result.get, ("x", "h", "w_ih", "w_hh", "b_ih")))
