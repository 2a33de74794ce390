"""LSTM: one operator for all the steps of a layer, with its own backward through time.

Gates lie in the order i f g o. The formula is that of native/kernels/recurrent_cells.py, from which
kernels and programs are derived. NumPy's steps are written out: sigmoid(x) = (tanh(x / 2) + 1) / 2,
so that one tanh makes all four gates (walking the formula took 1.2 to 1.9 of forward's time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.backward import compute_differentiable_adjoint
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.target.eager_costs import BLOCK_ELEMENTS
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..linalg.matmul import multiply_matrices
from .native import compute_input_sums, drop_missing, prepare
from .tangents import compute_with_tangents, push_layer
from .time_steps import (
    Steps, add_biases, check_cell, choose_overload, combine_biases, multiply_rows,
    run_in_operators, run_stack,
)


def _samples(rng: Rng) -> Iterator[Sample]:
    for projected in (False, True):
        for sizes, reverse in (((2, 2, 2), False), ((3, 2, 1), True)):
            rows, width = sum(sizes), 2 if projected else 3
            yield (rng.normal(size=(rows, 4)), rng.normal(size=(sizes[0], width)),
                   rng.normal(size=(sizes[0], 3)), rng.normal(size=(12, 4)),
                   rng.normal(size=(12, width)), rng.normal(size=12), rng.normal(size=12),
                   rng.normal(size=(2, 3)) if projected else None, sizes, reverse), {}


def _reference(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray,
    b_ih: np.ndarray, b_hh: np.ndarray, w_hr: np.ndarray | None, sizes: tuple[int, ...],
    reverse: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, h, c = np.empty((len(x), h.shape[1])), h.copy(), c.copy()
    starts = np.cumsum([0, *sizes])
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n, rows = sizes[t], slice(starts[t], starts[t + 1])
        i, f, g, o = np.split(x[rows] @ w_ih.T + h[:n] @ w_hh.T + b_ih + b_hh, 4, 1)
        i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
        c[:n] = f * c[:n] + i * np.tanh(g)
        h[:n] = o * np.tanh(c[:n]) if w_hr is None else (o * np.tanh(c[:n])) @ w_hr.T
        y[rows] = h[:n]
    return y, h, c


def _compute_tanh_factors(width: int, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Factors before and after tanh, and the offset, that make all gates one tanh."""
    factor, shift = np.full(4 * width, 0.5, kind), np.full(4 * width, 0.5, kind)
    factor[2 * width : 3 * width], shift[2 * width : 3 * width] = 1, 0
    return factor, shift


@opaque(layout=Layout.FREE,
        name="_lstm_layer", node="LstmLayerBackward0", expose=(), constant_outputs=(3, 4, 5),
        ref=_reference, samples=_samples)
def lstm_layer(
    x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None,
    b_hh: Array | None = None, w_hr: Array | None = None, sizes: Any = (), reverse: bool = False,
    keep: bool = True
) -> tuple[Array, ...]:
    """Return (h of every row, last h, last c, and for backward: gates, c, h unprojected).

    x (rows, input), h (batch, hidden or proj), c (batch, hidden).
    """
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = cast_arrays(inside, x, h, c, w_ih, w_hh, b_ih, b_hh,
                                                        w_hr)
    steps, width = Steps(sizes, reverse), c.shape[1]
    if w_hr is None:
        results = _run_in_one_kernel(steps, x, h, c, w_ih, w_hh, combine_biases(b_ih, b_hh), keep)
        if results is not None:
            return (*(v.astype(kind, copy=False) for v in results[:3]), *results[3:])
    factor, shift = _compute_tanh_factors(width, inside)
    gates = np.dot(x, (w_ih * factor[:, None]).T)
    add_biases(gates, b_ih, b_hh, factor)
    turned = np.ascontiguousarray((w_hh * factor[:, None]).T)
    y = np.empty((steps.rows, h.shape[1]), inside)
    hidden_y = y if w_hr is None else np.empty((steps.rows, width), inside)
    cells = np.empty((steps.rows, width), inside)
    scratch, part = np.empty((steps.batch, 4 * width), inside), np.empty(c.shape, inside)
    if not steps.dense:
        h, c = h.copy(), c.copy()
    for start, end in steps.windows:
        n = end - start
        g, new = gates[start:end], cells[start:end]
        g += np.dot(h[:n], turned, scratch[:n])
        np.tanh(g, g)
        g *= factor
        g += shift
        np.multiply(g[:, width : 2 * width], c[:n], new)
        new += np.multiply(g[:, :width], g[:, 2 * width : 3 * width], part[:n])
        result = np.multiply(g[:, 3 * width :], np.tanh(new, part[:n]), hidden_y[start:end])
        if w_hr is not None:
            result = np.dot(result, w_hr.T, y[start:end])
        if steps.dense:
            h, c = result, new
        else:
            h[:n], c[:n] = result, new
    last = (h.copy().astype(kind, copy=False), c.copy().astype(kind, copy=False))
    y = y.astype(kind, copy=False)
    if not keep:
        return y, *last
    return (y, *last, gates, cells, *(() if w_hr is None else (hidden_y,)))


def _run_in_one_kernel(
    steps: Steps, x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, bias: Array | None,
    keep: bool,
) -> list[Array] | None:
    """y, h, c and, with `keep`, gates and cells, in machine code; None without it."""
    wanted = ("y", "h", "c", "gates", "cells") if keep else ("y", "h", "c")
    layer = prepare("lstm", steps, w_hh, ("x", "h", "c"), wanted)
    if layer is None:
        return None
    outputs = layer({"x": compute_input_sums(x, w_ih, bias), "h": h, "c": c})
    return [outputs[name] for name in wanted]


def cast_arrays(kind: np.dtype, *arrays: Array | None) -> list[Any]:
    """The arrays in the dtype of the computation, laid out for it."""
    return [None if a is None else np.ascontiguousarray(a, kind) for a in arrays]


@lstm_layer.jvp
def _(
    x_t: Tensor | None, h_t: Tensor | None, c_t: Tensor | None, w_ih_t: Tensor | None,
    w_hh_t: Tensor | None, b_ih_t: Tensor | None, b_hh_t: Tensor | None, w_hr_t: Tensor | None,
    ys: tuple[Tensor, ...], x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None, b_hh: Tensor | None, w_hr: Tensor | None, sizes: Any, reverse: bool
) -> tuple[Tensor | None, ...]:
    return push_layer("lstm", (x_t, h_t, c_t, w_ih_t, w_hh_t, b_ih_t, b_hh_t, w_hr_t),
                      (x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr), sizes, reverse, len(ys))


@lstm_layer.value_and_jvp
def _(
    x_t: Array | None, h_t: Array | None, c_t: Array | None, w_ih_t: Array | None,
    w_hh_t: Array | None, b_ih_t: Array | None, b_hh_t: Array | None, w_hr_t: Array | None,
    x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None,
    b_hh: Array | None, w_hr: Array | None, sizes: Any, reverse: bool, keep: bool
) -> tuple[tuple[Array, ...], tuple[Array, ...]] | None:
    return None if keep else compute_with_tangents(
        "lstm", (x_t, h_t, c_t, w_ih_t, w_hh_t, b_ih_t, b_hh_t, w_hr_t),
        (x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr), sizes, reverse)


@lstm_layer.vjp
def _(
    gs: tuple[Tensor | None, ...], ys: tuple[Tensor, ...], x: Tensor, h: Tensor, c: Tensor,
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, w_hr: Tensor | None,
    sizes: Any, reverse: bool, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    inputs = (x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)
    if MODE.grad:
        return compute_differentiable_adjoint(
            partial(_run_in_operators, sizes=sizes, reverse=reverse), inputs, gs[:3], needs
        )
    hidden_y = ys[5] if len(ys) > 5 else None
    dx, dh, dc, dw_ih, dw_hh, db, dw_hr = lstm_adjoint(
        *gs[:3], x, h, c, w_ih, w_hh, w_hr, ys[0], *ys[3:5], hidden_y, sizes, reverse, needs
    )
    return dx, dh, dc, dw_ih, dw_hh, db, db, dw_hr


def _compute_factors(gates: Array, before: Array, tanhs: Array) -> tuple[Array, Array]:
    """(the gates' derivatives: i f g by dc, o by dh; the derivative of c by h)."""
    width = before.shape[1]
    result, of_cell = np.empty_like(gates), np.empty_like(before)
    step = max(1, BLOCK_ELEMENTS // max(gates.shape[1], 1))
    for start in range(0, len(gates), step):
        rows = slice(start, start + step)
        s, d, t = gates[rows], result[rows], tanhs[rows]
        i, _, g, o = (s[:, k * width : (k + 1) * width] for k in range(4))
        np.multiply(s, s, d)
        np.subtract(s, d, d)  # s (1 - s), which is right for i, f and o
        d[:, :width] *= g
        d[:, width : 2 * width] *= before[rows]
        np.multiply(g, g, d[:, 2 * width : 3 * width])
        np.subtract(1, d[:, 2 * width : 3 * width], d[:, 2 * width : 3 * width])
        d[:, 2 * width : 3 * width] *= i
        d[:, 3 * width :] *= t
        k = np.multiply(t, t, of_cell[rows])
        np.subtract(1, k, k)
        k *= o
    return result, of_cell


@opaque(layout=Layout.FREE,
        name="_lstm_adjoint", expose=(), differentiable=False, ref=None, samples=None)
def lstm_adjoint(
    g_y: Array | None, g_h: Array | None, g_c: Array | None, x: Array, h: Array, c: Array,
    w_ih: Array, w_hh: Array, w_hr: Array | None, y: Array, gates: Array, cells: Array,
    whole: Array | None, sizes: Any, reverse: bool, needs: Any
) -> tuple[Array | None, ...]:
    """Return the cotangents of x, h, c, w_ih, w_hh, a bias and w_hr."""
    kind, inside = x.dtype, gates.dtype
    g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y = cast_arrays(
        inside, g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y
    )
    steps, width = Steps(sizes, reverse), c.shape[1]
    if w_hr is None:
        inputs = drop_missing({"gates": gates, "cells": cells, "previous": cells, "first": c,
                               "gy": g_y,
                               "dh": g_h, "dc": g_c})
        whole_layer = prepare("lstm", steps, w_hh, tuple(inputs), ("d", "dh", "dc"), "backward")
        if whole_layer is not None:
            result = whole_layer(inputs)
            return _compute_gradients(result["d"], x, y, h, w_ih, None, whole, result["dh"],
                                      result["dc"],
                                      steps, kind, needs)
    dh = np.zeros(h.shape, inside) if g_h is None else g_h.copy()
    dc = np.zeros(c.shape, inside) if g_c is None else g_c.copy()
    d, of_cell = _compute_factors(gates, steps.previous(cells, c), np.tanh(cells))
    forgets = gates[:, width : 2 * width]
    part = np.empty(c.shape, inside)
    projected: Any = None if w_hr is None else np.empty(y.shape, inside)
    for start, end in reversed(steps.windows):
        n = end - start
        a, b, rows = dh[:n], dc[:n], d[start:end]
        if g_y is not None:
            a += g_y[start:end]
        if w_hr is not None:
            projected[start:end] = a
            total = np.dot(a, w_hr)
        else:
            total = a
        b += np.multiply(total, of_cell[start:end], part[:n])
        first = rows[:, : 3 * width].reshape(n, 3, width, copy=False)
        first *= b[:, None, :]
        rows[:, 3 * width :] *= total
        b *= forgets[start:end]
        np.dot(rows, w_hh, a)
    return _compute_gradients(d, x, y, h, w_ih, projected, whole, dh, dc, steps, kind, needs)


def _compute_gradients(
    d: Array, x: Array, y: Array, h: Array, w_ih: Array, projected: Any, hidden_y: Any, dh: Array,
    dc: Array, steps: Steps, kind: np.dtype, needs: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    """The cotangents that are needed, from those of the gates."""
    gradients = (
        multiply_matrices(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        dc if needs[2] else None,
        multiply_rows(d, x) if needs[3] else None,
        multiply_rows(d, steps.previous(y, h)) if needs[4] else None,
        np.add.reduce(d, 0) if needs[5] or needs[6] else None,
        multiply_rows(projected, hidden_y) if needs[7] else None,
    )
    return tuple(None if v is None else v.astype(kind, copy=False) for v in gradients)


def _run_in_operators(
    x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, sizes: Any,
    reverse: Any
) -> Any:
    """The layer's first three results in recorded operators."""
    return run_in_operators("lstm", x, (h, c), w_ih, w_hh, b_ih, b_hh, sizes, reverse, w_hr)


def _run_layer(
    x: Tensor, states: tuple[Tensor, ...], weights: Sequence[Tensor], sizes: tuple[int, ...],
    reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction of one layer, from its weights in PyTorch's order."""
    w_ih, w_hh, *rest = weights
    b_ih, b_hh = (rest[0], rest[1]) if len(rest) > 1 else (None, None)
    w_hr = rest[-1] if len(rest) % 2 else None
    keep = MODE.grad and any(
        v is not None and v._tracked and requires(v) for v in (x, *states, *weights)
    )
    return lstm_layer(x, *states, w_ih, w_hh, b_ih, b_hh, w_hr, sizes, reverse, keep)[:3]


_NAMES = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
          "batch_first")


@repeats_operators()
@composite(autocast=Policy.LOWER, expose=("torch",))
def lstm(*args: Any, **kwargs: Any) -> Any:
    """Run an LSTM over a sequence and return (output, h, c).

    lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first),
    or lstm(data, batch_sizes, (h, c), params, ..., bidirectional) for a packed sequence. `params`
    lists, for each layer and direction, w_ih, w_hh, b_ih, b_hh, w_hr, omitting absent ones.
    RuntimeError if shapes do not fit. Hochreiter and Schmidhuber, 1997.

    >>> params = [torch.zeros(32, 4), torch.zeros(32, 8)]  # w_ih, w_hh
    >>> x, state = torch.zeros(5, 2, 4), (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    >>> output, h, c = torch.lstm(x, state, params, False, 1, 0.0, False, False, False)
    >>> output.shape, h.shape, c.shape
    (torch.Size([5, 2, 8]), torch.Size([1, 2, 8]), torch.Size([1, 2, 8]))
    """
    bound, batch_sizes = choose_overload(args, kwargs, _NAMES, "lstm")
    x, states, params = bound["input"], tuple(bound["hx"]), bound["params"]
    if len(states) != 2:
        raise RuntimeError(f"lstm expects two hidden states, got {len(states)}")
    has_biases = bound["has_biases"]
    hidden = params[0]._array.shape[0] // 4
    width = params[1]._array.shape[1]
    params_per_layer = (4 if has_biases else 2) + (width != hidden)
    options = tuple(bound[n] for n in _NAMES[4:])
    return run_stack(
        "lstm", _run_layer, x, states, params, params_per_layer, (width, hidden), options,
        batch_sizes
    )


@composite(expose=("torch",))
def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None
) -> Any:
    """Return (h, c) after one LSTM step.

    input (batch, features), hx a pair (h, c), each (batch, hidden). RuntimeError if shapes do not
    fit.

    Args:
        hx (pair of Tensors): h and c, each (batch, hidden).

    >>> state = (torch.zeros(2, 8), torch.zeros(2, 8))
    >>> h, c = torch.lstm_cell(torch.zeros(2, 4), state, torch.zeros(32, 4), torch.zeros(32, 8))
    >>> h.shape, c.shape
    (torch.Size([2, 8]), torch.Size([2, 8]))
    """
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell expects two hidden states, got {len(hx)}")
    check_cell(input, hx, w_ih, w_hh)
    batch = input._array.shape[0]
    weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
    _, h, c = _run_layer(input, tuple(hx), weights, (batch,), False)
    return h, c
