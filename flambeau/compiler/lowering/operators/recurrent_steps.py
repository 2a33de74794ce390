"""LSTM, GRU and simple recurrent layers over time, forward and backward.

One large product makes all the gates' parts from the inputs; each step then is a product with the
state and work on elements. Backward likewise: steps for the states, then one product a weight.
Sequences are rows: those of one time step after those of another; steps may get smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.core.promotion import compute_dtype
from ....ops.recurrent.time_steps import Steps
from . import recurrent_fused as whole_layer
from ..numpy.node_builders import literal
from ..registry import lowering
from ..numpy.symbolic_array import Symbol, symbol

Sizes = tuple[int, ...]


def _as(kind: np.dtype, *arrays: Any) -> list[Any]:
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def _in_order(parts: Sequence[Symbol], steps: Steps) -> Symbol:
    """The steps' rows, walked one after the other, in the order of rows."""
    turned = len(steps.windows) > 1 and steps.windows[0][0] != 0
    return np.concatenate(parts[::-1] if turned else parts, 0)


def _first(state: Symbol, n: int) -> Symbol:
    return state if state.shape[0] == n else state[:n]


def _replaced(state: Symbol, new: Symbol) -> Symbol:
    """The state with its first rows new."""
    n = new.shape[0]
    return new if state.shape[0] == n else np.concatenate([new, state[n:]], 0)


def _biases(b_ih: Any, b_hh: Any, factor: np.ndarray | None = None) -> Any:
    """The biases that there are, added up, times a factor."""
    given = [b for b in (b_ih, b_hh) if b is not None]
    if not given:
        return None
    total = given[0] if len(given) == 1 else given[0] + given[1]
    return total if factor is None else total * factor


def _inputs(x: Symbol, w: Symbol, bias: Any) -> Symbol:
    y = np.matmul(x, w.T)
    return y if bias is None else y + bias


def _previous(parts: Sequence[Symbol], first: Symbol, steps: Steps) -> Symbol:
    """For each row the state before its step, from the states after each, as walked."""
    held, found = first, []
    for part in parts:
        found.append(_first(held, part.shape[0]))
        held = _replaced(held, part)
    return _in_order(found, steps)


def _parts(x: Symbol, steps: Steps) -> list[Symbol]:
    """Rows by steps, as they are walked."""
    return [x[start:end] for start, end in steps.windows]


def _rounded(kind: np.dtype, *arrays: Any) -> tuple[Any, ...]:
    return tuple(None if a is None else a.astype(kind) for a in arrays)


def _rows_product(a: Symbol, b: Symbol) -> Symbol:
    return np.matmul(a.T, b)


# ------------------------------------------------------------------------------- lstm


def _halves(width: int, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """sigmoid(x) = tanh(x / 2) / 2 + 1 / 2: one tanh makes all gates. The third is tanh itself."""
    factor, shift = np.full(4 * width, 0.5, kind), np.full(4 * width, 0.5, kind)
    factor[2 * width : 3 * width], shift[2 * width : 3 * width] = 1, 0
    return factor, shift


def _parts_of(x: Symbol, n: int) -> list[Symbol]:
    """Columns in n equal parts."""
    width = x.shape[1] // n
    return [x[:, i * width : (i + 1) * width] for i in range(n)]


@lowering("_lstm_layer")
def _lstm_layer(
    x: Symbol, h: Symbol, c: Symbol, w_ih: Symbol, w_hh: Symbol,
    b_ih: Any = None, b_hh: Any = None, w_hr: Any = None, sizes: Sizes = (),
    reverse: bool = False, keep: bool = True,
) -> tuple[Symbol, ...]:  # fmt: skip
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = _as(inside, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)
    steps, width = Steps(sizes, reverse), c.shape[1]
    if w_hr is None and whole_layer.in_one_kernel("lstm", steps, width, kind):
        sums = _inputs(x, w_ih, _biases(b_ih, b_hh))
        found = whole_layer.lstm(whole_layer.Layer("lstm", steps), sums, h, c, w_hh, keep)
        return (*_rounded(kind, *found[:3]), *found[3:])
    halves, shifts = _halves(width, inside)
    column = halves[:, None]
    inputs = _inputs(x, w_ih * column, _biases(b_ih, b_hh, halves))
    turned = (w_hh * column).T
    factor, shift = (symbol(literal(v[None])) for v in (halves, shifts))
    made: list[list[Symbol]] = [[], [], [], []]
    for part in _parts(inputs, steps):
        n = part.shape[0]
        gates = np.tanh(part + np.matmul(_first(h, n), turned)) * factor + shift
        i, f, g, o = _parts_of(gates, 4)
        new = f * _first(c, n) + i * g
        whole = o * np.tanh(new)
        y = whole if w_hr is None else np.matmul(whole, w_hr.T)
        h, c = _replaced(h, y), _replaced(c, new)
        for place, value in zip(made, (y, gates, new, whole), strict=True):
            place.append(value)
    outputs = _rounded(kind, _in_order(made[0], steps), h, c)
    if not keep:
        return outputs
    kept = made[1:3] if w_hr is None else made[1:]
    return (*outputs, *(_in_order(parts, steps) for parts in kept))


@lowering("_lstm_adjoint")
def _lstm_adjoint(
    g_y: Any, g_h: Any, g_c: Any, x: Symbol, h: Symbol, c: Symbol,
    w_ih: Symbol, w_hh: Symbol, w_hr: Any, y: Symbol, gates: Symbol,
    cells: Symbol, whole: Any, sizes: Sizes, reverse: bool,
    needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    kind, inside, steps = x.dtype, gates.dtype, Steps(sizes, reverse)
    g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y = _as(
        inside, g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y
    )
    if w_hr is None and whole_layer.in_one_kernel("lstm", steps, c.shape[1], kind):
        layer = whole_layer.Layer("lstm", steps)
        given = (g_y, g_h, g_c)
        d, *states = whole_layer.lstm_adjoint(layer, given, c, (gates, cells), w_hh, needs)
        of_x, *others = whole_layer.gradients(layer, d, x, y, h, w_ih, needs)
        return _rounded(kind, of_x, *states, *others, None)
    before, tanhs = _previous(_parts(cells, steps), c, steps), np.tanh(cells)
    i, f, g, o = _parts_of(gates, 4)
    slopes = [_parts(v, steps) for v in (
        (i - i * i) * g, (f - f * f) * before, (1 - g * g) * i, (o - o * o) * tanhs,
        (1 - tanhs * tanhs) * o, f)]  # fmt: skip
    shares = None if g_y is None else _parts(g_y, steps)
    dh, dc = (np.zeros_like(s) if g is None else g for s, g in ((h, g_h), (c, g_c)))
    found, projected = [], []
    for t in reversed(range(len(steps.windows))):
        s_i, s_f, s_g, s_o, of_cell, forget = (v[t] for v in slopes)
        n = s_i.shape[0]
        a = _first(dh, n)
        a = a if shares is None else a + shares[t]
        total = a if w_hr is None else np.matmul(a, w_hr)
        b = _first(dc, n) + total * of_cell
        rows = np.concatenate([s_i * b, s_f * b, s_g * b, s_o * total], 1)
        found.append(rows)
        projected.append(a)
        dh, dc = _replaced(dh, np.matmul(rows, w_hh)), _replaced(dc, b * forget)
    d = _in_order(found[::-1], steps)
    return _rounded(
        kind,
        np.matmul(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        dc if needs[2] else None,
        _rows_product(d, x) if needs[3] else None,
        _rows_product(d, _previous(_parts(y, steps), h, steps)) if needs[4] else None,
        np.sum(d, 0) if needs[5] or needs[6] else None,
        _rows_product(_in_order(projected[::-1], steps), whole) if needs[7] else None,
    )


# ------------------------------------------------------------------------------- gru


def _new_first(w: Symbol) -> Symbol:
    """Rows r z n in the order n r z."""
    width = w.shape[0] // 3
    return np.concatenate([w[2 * width :], w[: 2 * width]], 0)


def _new_last(w: Symbol) -> Symbol:
    """Rows n r z in the order r z n."""
    width = w.shape[0] // 3
    return np.concatenate([w[width:], w[:width]], 0)


def _gru_inputs(x: Symbol, w: Symbol, b_ih: Any, b_hh: Any) -> tuple[Symbol, Any]:
    """The sums from the inputs, and the bias that comes in with each step: the new gate's."""
    if b_hh is None:
        return _inputs(x, w, b_ih), None
    width = b_hh.shape[0] // 3
    counted = np.ones(3 * width, x.dtype)
    counted[2 * width :] = 0
    outer = b_hh * counted
    return _inputs(x, w, outer if b_ih is None else outer + b_ih), b_hh[2 * width :]


@lowering("_gru_layer")
def _gru_layer(
    x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None,
    b_hh: Any = None, sizes: Sizes = (), reverse: bool = False, keep: bool = True,
) -> tuple[Symbol, ...]:  # fmt: skip
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = _as(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps, width = Steps(sizes, reverse), h.shape[1]
    if whole_layer.in_one_kernel("gru", steps, width, kind):
        sums, of_new = _gru_inputs(x, w_ih, b_ih, b_hh)
        found = whole_layer.gru(whole_layer.Layer("gru", steps), sums, h, w_hh, of_new, keep)
        return (*_rounded(kind, *found[:2]), *found[2:])
    factor = np.full(3 * width, 0.5, inside)
    factor[2 * width :] = 1
    counted = factor.copy()
    counted[2 * width :] = 0  # the new gate's comes in with each step
    inputs = _inputs(x, w_ih * factor[:, None], None if b_ih is None else b_ih * factor)
    inputs = inputs if b_hh is None else inputs + b_hh * counted
    turned = (w_hh * factor[:, None]).T
    of_new = None if b_hh is None else b_hh[2 * width :]
    ys, gates, inners = [], [], []
    for part in _parts(inputs, steps):
        state = _first(h, part.shape[0])
        product = np.matmul(state, turned)
        both = np.tanh(part[:, : 2 * width] + product[:, : 2 * width]) * 0.5 + 0.5
        r, z = _parts_of(both, 2)
        inner = product[:, 2 * width :]
        inner = inner if of_new is None else inner + of_new
        new = np.tanh(part[:, 2 * width :] + r * inner)
        y = (state - new) * z + new
        h = _replaced(h, y)
        ys.append(y)
        gates.append(np.concatenate([both, new], 1))
        inners.append(inner)
    outputs = _rounded(kind, _in_order(ys, steps), h)
    return (*outputs, _in_order(gates, steps), _in_order(inners, steps)) if keep else outputs


@lowering("_gru_adjoint")
def _gru_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol,
    y: Symbol, gates: Symbol, inner: Symbol, sizes: Sizes, reverse: bool,
    needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    kind, inside = x.dtype, gates.dtype
    g_y, g_h, x, h, w_ih, w_hh, y = _as(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps = Steps(sizes, reverse)
    if whole_layer.in_one_kernel("gru", steps, h.shape[1], kind):
        layer = whole_layer.Layer("gru", steps)
        d, dx, dh = whole_layer.gru_adjoint(layer, (g_y, g_h), h, (y, gates, inner), w_hh, needs)
        of_x, of_w, _, of_bias = whole_layer.gradients(
            layer, dx, x, y, h, w_ih, (needs[0], None, None, needs[2], None, needs[4], False))
        of_h = (layer.weight(d, y, h) if needs[3] else None, np.sum(d, 0) if needs[5] else None)
        return _rounded(kind, of_x, dh, of_w, of_h[0], of_bias, of_h[1])
    w = _new_first(w_hh)
    before = _previous(_parts(y, steps), h, steps)
    r, z, new = _parts_of(gates, 3)
    of_n = (1 - new * new) * (1 - z)
    of_inner = of_n * r
    slopes = [_parts(v, steps) for v in (
        of_inner, (1 - r) * of_inner * inner, (before - new) * ((1 - z) * z), of_n, z)]  # fmt: skip
    shares = None if g_y is None else _parts(g_y, steps)
    dh = np.zeros_like(h) if g_h is None else g_h
    found, news = [], []
    for t in reversed(range(len(steps.windows))):
        s_inner, s_r, s_z, s_n, keep = (v[t] for v in slopes)
        a = _first(dh, s_n.shape[0])
        a = a if shares is None else a + shares[t]
        rows = np.concatenate([s_inner * a, s_r * a, s_z * a], 1)
        found.append(rows)
        news.append(s_n * a)
        dh = _replaced(dh, a * keep + np.matmul(rows, w))
    from_h = _in_order(found[::-1], steps)
    width = h.shape[1]
    from_x = np.concatenate([from_h[:, width:], _in_order(news[::-1], steps)], 1)
    return _rounded(
        kind,
        np.matmul(from_x, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        _rows_product(from_x, x) if needs[2] else None,
        _new_last(_rows_product(from_h, before)) if needs[3] else None,
        np.sum(from_x, 0) if needs[4] else None,
        _new_last(np.sum(from_h, 0)) if needs[5] else None,
    )


# ------------------------------------------------------------------------------- simple


@lowering("_rnn_layer")
def _rnn_layer(
    x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None,
    b_hh: Any = None, sizes: Sizes = (), reverse: bool = False, relu: bool = False,
) -> tuple[Symbol, ...]:  # fmt: skip
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = _as(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps, turned = Steps(sizes, reverse), w_hh.T
    inputs = _inputs(x, w_ih, _biases(b_ih, b_hh))
    cell = "relu" if relu else "tanh"
    if whole_layer.in_one_kernel(cell, steps, h.shape[1], kind):
        layer = whole_layer.Layer(cell, steps)
        return _rounded(kind, *whole_layer.simple(layer, inputs, h, w_hh))
    ys = []
    for part in _parts(inputs, steps):
        z = part + np.matmul(_first(h, part.shape[0]), turned)
        ys.append(np.maximum(z, 0) if relu else np.tanh(z))
        h = _replaced(h, ys[-1])
    return _rounded(kind, _in_order(ys, steps), h)


@lowering("_rnn_adjoint")
def _rnn_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol,
    y: Symbol, sizes: Sizes, reverse: bool, relu: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    kind, inside = x.dtype, compute_dtype(x.dtype)
    g_y, g_h, x, h, w_ih, w_hh, y = _as(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps, cell = Steps(sizes, reverse), "relu" if relu else "tanh"
    if whole_layer.in_one_kernel(cell, steps, h.shape[1], kind):
        layer = whole_layer.Layer(cell, steps)
        d, dh = whole_layer.simple_adjoint(layer, (g_y, g_h), y, w_hh, needs)
        given = (needs[0], None, None, *needs[2:])
        found = whole_layer.gradients(layer, d, x, y, h, w_ih, given)
        return _rounded(kind, found[0], dh, *found[1:])
    slope = np.greater(y, 0).astype(inside) if relu else 1 - y * y
    slopes = _parts(slope, steps)
    shares = None if g_y is None else _parts(g_y, steps)
    dh = np.zeros_like(h) if g_h is None else g_h
    backwards = []
    for t in reversed(range(len(steps.windows))):
        a = _first(dh, slopes[t].shape[0])
        a = a if shares is None else a + shares[t]
        backwards.append(slopes[t] * a)
        dh = _replaced(dh, np.matmul(backwards[-1], w_hh))
    d = _in_order(backwards[::-1], steps)
    return _rounded(
        kind,
        np.matmul(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        _rows_product(d, x) if needs[2] else None,
        _rows_product(d, _previous(_parts(y, steps), h, steps)) if needs[3] else None,
        np.sum(d, 0) if needs[4] or needs[5] else None,
    )
