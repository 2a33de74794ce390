"""Recurrent layers whose steps are one kernel: all steps of the same rows, and of those enough for
the weights that each thread reads at each step. Others are lowered step by step (recurrent.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.kernels import recurrent
from ....native.kernels.recurrent_cells import CELLS
from ....native.runtime.thread_pool import threads
from ....ops.core.promotion import compute_dtype
from ....ops.recurrent.time_steps import Steps
from ...ir.graph import Node, Op
from ...fusion.fusion_group import MOVEMENTS
from ...ir.recurrence import recurrence, recurrence_gradient
from ..numpy.symbolic_array import Symbol, symbol

_FLOATS = ("float32", "float64")


def becomes_one_kernel(cell: str, steps: Steps, width: int, kind: np.dtype) -> bool:
    """Whether a layer's steps become one kernel."""
    inside = compute_dtype(kind)
    if not steps.dense or len(steps.windows) < 2 or not steps.batch or not width:
        return False
    size = CELLS[cell].gates * width * width * inside.itemsize
    return inside.name in _FLOATS and recurrent.fits_one_kernel(size, steps.batch, threads())


class RecurrentLayer:
    """One direction of a layer: its steps, in their order and as rows."""

    def __init__(self, cell: str, steps: Steps) -> None:
        self.cell = cell
        self.count, self.rows = len(steps.windows), steps.batch
        self.reverse = steps.windows[0][0] != 0

    def stepped(self, x: Any) -> Any:
        """Rows as (steps, rows of one, columns)."""
        return None if x is None else x.reshape(self.count, self.rows, x.shape[-1])

    def flat(self, x: Symbol) -> Symbol:
        """Steps as rows."""
        return x.reshape(self.count * self.rows, x.shape[-1])

    def last(self, x: Symbol) -> Symbol:
        """What is there after the last step."""
        return x[0] if self.reverse else x[self.count - 1]

    def forward(self, inputs: dict[str, Any], of: str) -> Symbol:
        """A result of the layer's steps."""
        return symbol(recurrence(self.cell, _as_nodes(inputs), self.reverse, of))

    def backward(self, inputs: dict[str, Any], of: str) -> Symbol:
        """A cotangent."""
        return symbol(recurrence_gradient(self.cell, _as_nodes(inputs), self.reverse, of))

    def weight(self, d: Symbol, y: Symbol, h: Any) -> Symbol:
        """The cotangent of the recurrent weights, from those of the sums (both as rows)."""
        n = self.rows
        late, first = (d[:-n], d[-n:]) if self.reverse else (d[n:], d[:n])
        before = y[n:] if self.reverse else y[:-n]
        gradient = np.matmul(late.T, before)
        return gradient if _is_absent_or_zero(h) else gradient + np.matmul(first.T, h)


def _as_nodes(values: dict[str, Any]) -> dict[str, Node | None]:
    return {name: None if _is_absent_or_zero(x) else x.node for name, x in values.items()}


def _is_absent_or_zero(x: Any) -> bool:
    """Whether a value is absent, or zero everywhere."""
    if x is None:
        return True
    node = x.node
    while node.op in MOVEMENTS:
        node = node.inputs[0]
    return bool(node.op is Op.CONSTANT and node.value == 0)


def gradients(
    layer: RecurrentLayer,
    d: Symbol,
    x: Symbol,
    y: Symbol,
    h: Any,
    w_ih: Symbol,
    needs: Sequence[Any],
) -> tuple[Any, Any, Any, Any]:
    """The cotangents of x, w_ih, w_hh and a bias from those of the sums. `needs`: of x, h, c,
    w_ih, w_hh, b_ih, b_hh."""
    return (
        np.matmul(d, w_ih) if needs[0] else None,
        np.matmul(d.T, x) if needs[3] else None,
        layer.weight(d, y, h) if needs[4] else None,
        np.sum(d, 0) if needs[5] or needs[6] else None,
    )


def lstm_layer(layer: RecurrentLayer, sums: Symbol, h: Symbol, c: Symbol, w_hh: Symbol,
         keep: bool) -> tuple[Symbol, ...]:
    """(y, last h, last c, and for backward: gates, c)."""
    inputs = {"x": layer.stepped(sums), "h": h, "c": c, "w": w_hh}
    y = layer.forward(inputs, "y")
    if not keep:
        return layer.flat(y), layer.last(y), layer.forward(inputs, "c")
    gates, cells = layer.forward(inputs, "gates"), layer.forward(inputs, "cells")
    return layer.flat(y), layer.last(y), layer.last(cells), layer.flat(gates), layer.flat(cells)


def lstm_adjoint(
    layer: RecurrentLayer,
    cotangents: Sequence[Any],
    c: Symbol,
    saved: Sequence[Symbol],
    w_hh: Symbol,
    needs: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """The cotangents of the sums, of h and of c."""
    g_y, g_h, g_c = cotangents
    gates, cells = (layer.stepped(v) for v in saved)
    inputs = {"w": w_hh, "gates": gates, "cells": cells, "gy": layer.stepped(g_y), "dh": g_h,
             "dc": g_c, "previous": cells, "first": c}
    d = layer.flat(layer.backward(inputs, "d"))
    dh, dc = (layer.backward(inputs, of) if needs[k] else None
              for k, of in ((1, "dh"), (2, "dc")))
    return d, dh, dc


def gru_layer(layer: RecurrentLayer, sums: Symbol, h: Symbol, w_hh: Symbol, bias: Any,
        keep: bool) -> tuple[Symbol, ...]:
    """(y, last h, and for backward: gates, the new gate's part from h)."""
    inputs = {"x": layer.stepped(sums), "h": h, "w": w_hh, "bias": bias}
    y = layer.forward(inputs, "y")
    outputs = (layer.flat(y), layer.last(y))
    if not keep:
        return outputs
    return (*outputs, *(layer.flat(layer.forward(inputs, of)) for of in ("gates", "inner")))


def gru_adjoint(
    layer: RecurrentLayer,
    cotangents: Sequence[Any],
    h: Symbol,
    saved: Sequence[Symbol],
    w_hh: Symbol,
    needs: Sequence[bool],
) -> tuple[Any, Any, Any]:
    """The cotangents of the sums from h, of those from x, and of h."""
    y, gates, inner = (layer.stepped(v) for v in saved)
    inputs = {"w": w_hh, "gates": gates, "inner": inner, "gy": layer.stepped(cotangents[0]),
             "dh": cotangents[1], "previous": y, "first": h}
    d, dx = (layer.flat(layer.backward(inputs, of)) for of in ("d", "dx"))
    return d, dx, layer.backward(inputs, "dh") if needs[1] else None


def simple_layer(
    layer: RecurrentLayer, sums: Symbol, h: Symbol, w_hh: Symbol
) -> tuple[Symbol, Symbol]:
    """(y, last h)."""
    y = layer.forward({"x": layer.stepped(sums), "h": h, "w": w_hh}, "y")
    return layer.flat(y), layer.last(y)


def simple_adjoint(
    layer: RecurrentLayer, cotangents: Sequence[Any], y: Symbol, w_hh: Symbol, needs: Sequence[bool]
) -> tuple[Any, Any]:
    """The cotangents of the sums and of h."""
    inputs = {"w": w_hh, "y": layer.stepped(y), "gy": layer.stepped(cotangents[0]),
             "dh": cotangents[1]}
    d = layer.flat(layer.backward(inputs, "d"))
    return d, layer.backward(inputs, "dh") if needs[1] else None
