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


def _cast_to(kind: np.dtype, *arrays: Any) -> list[Any]:
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def _join_in_row_order(parts: Sequence[Symbol], steps: Steps) -> Symbol:
    """The steps' rows, walked one after the other, in the order of rows."""
    turned = len(steps.windows) > 1 and steps.windows[0][0] != 0
    return np.concatenate(parts[::-1] if turned else parts, 0)


def _first_rows(state: Symbol, n: int) -> Symbol:
    return state if state.shape[0] == n else state[:n]


def _replace_first_rows(state: Symbol, new: Symbol) -> Symbol:
    """The state with its first rows new."""
    n = new.shape[0]
    return new if state.shape[0] == n else np.concatenate([new, state[n:]], 0)


def _biases(b_ih: Any, b_hh: Any, factor: np.ndarray | None = None) -> Any:
    """The biases that there are, added up, times a factor."""
    biases = [b for b in (b_ih, b_hh) if b is not None]
    if not biases:
        return None
    total = biases[0] if len(biases) == 1 else biases[0] + biases[1]
    return total if factor is None else total * factor


def _input_sums(x: Symbol, w: Symbol, bias: Any) -> Symbol:
    y = np.matmul(x, w.T)
    return y if bias is None else y + bias


def _states_before_steps(parts: Sequence[Symbol], first: Symbol, steps: Steps) -> Symbol:
    """For each row the state before its step, from the states after each, as walked."""
    state, previous_states = first, []
    for part in parts:
        previous_states.append(_first_rows(state, part.shape[0]))
        state = _replace_first_rows(state, part)
    return _join_in_row_order(previous_states, steps)


def _split_steps(x: Symbol, steps: Steps) -> list[Symbol]:
    """Rows by steps, as they are walked."""
    return [x[start:end] for start, end in steps.windows]


def _round_results(kind: np.dtype, *arrays: Any) -> tuple[Any, ...]:
    return tuple(None if a is None else a.astype(kind) for a in arrays)


def _rows_product(a: Symbol, b: Symbol) -> Symbol:
    return np.matmul(a.T, b)


# ------------------------------------------------------------------------------- lstm


def _split_gates(width: int, kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[Symbol, ...]:
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = _cast_to(inside, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)
    steps, width = Steps(sizes, reverse), c.shape[1]
    if w_hr is None and whole_layer.becomes_one_kernel("lstm", steps, width, kind):
        sums = _input_sums(x, w_ih, _biases(b_ih, b_hh))
        results = whole_layer.lstm_layer(
            whole_layer.RecurrentLayer("lstm", steps), sums, h, c, w_hh, keep
        )
        return (*_round_results(kind, *results[:3]), *results[3:])
    halves, shifts = _split_gates(width, inside)
    column = halves[:, None]
    inputs = _input_sums(x, w_ih * column, _biases(b_ih, b_hh, halves))
    turned = (w_hh * column).T
    factor, shift = (symbol(literal(v[None])) for v in (halves, shifts))
    walked: list[list[Symbol]] = [[], [], [], []]
    for part in _split_steps(inputs, steps):
        n = part.shape[0]
        gates = np.tanh(part + np.matmul(_first_rows(h, n), turned)) * factor + shift
        i, f, g, o = _parts_of(gates, 4)
        new = f * _first_rows(c, n) + i * g
        whole = o * np.tanh(new)
        y = whole if w_hr is None else np.matmul(whole, w_hr.T)
        h, c = _replace_first_rows(h, y), _replace_first_rows(c, new)
        for place, value in zip(walked, (y, gates, new, whole), strict=True):
            place.append(value)
    outputs = _round_results(kind, _join_in_row_order(walked[0], steps), h, c)
    if not keep:
        return outputs
    saved = walked[1:3] if w_hr is None else walked[1:]
    return (*outputs, *(_join_in_row_order(parts, steps) for parts in saved))


@lowering("_lstm_adjoint")
def _lstm_adjoint(
    g_y: Any, g_h: Any, g_c: Any, x: Symbol, h: Symbol, c: Symbol,
    w_ih: Symbol, w_hh: Symbol, w_hr: Any, y: Symbol, gates: Symbol,
    cells: Symbol, whole: Any, sizes: Sizes, reverse: bool,
    needs: Sequence[bool],
) -> tuple[Any, ...]:
    kind, inside, steps = x.dtype, gates.dtype, Steps(sizes, reverse)
    values = (g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y)
    g_y, g_h, g_c, x, h, c, w_ih, w_hh, w_hr, y = _cast_to(inside, *values)
    if w_hr is None and whole_layer.becomes_one_kernel("lstm", steps, c.shape[1], kind):
        layer = whole_layer.RecurrentLayer("lstm", steps)
        cotangents = (g_y, g_h, g_c)
        d, *states = whole_layer.lstm_adjoint(layer, cotangents, c, (gates, cells), w_hh, needs)
        of_x, *others = whole_layer.gradients(layer, d, x, y, h, w_ih, needs)
        return _round_results(kind, of_x, *states, *others, None)
    before, tanhs = _states_before_steps(_split_steps(cells, steps), c, steps), np.tanh(cells)
    i, f, g, o = _parts_of(gates, 4)
    slopes = [_split_steps(v, steps) for v in (
        (i - i * i) * g, (f - f * f) * before, (1 - g * g) * i, (o - o * o) * tanhs,
        (1 - tanhs * tanhs) * o, f)]
    shares = None if g_y is None else _split_steps(g_y, steps)
    dh, dc = (np.zeros_like(s) if g is None else g for s, g in ((h, g_h), (c, g_c)))
    gate_gradients, projected = [], []
    for t in reversed(range(len(steps.windows))):
        s_i, s_f, s_g, s_o, of_cell, forget = (v[t] for v in slopes)
        n = s_i.shape[0]
        a = _first_rows(dh, n)
        a = a if shares is None else a + shares[t]
        total = a if w_hr is None else np.matmul(a, w_hr)
        b = _first_rows(dc, n) + total * of_cell
        rows = np.concatenate([s_i * b, s_f * b, s_g * b, s_o * total], 1)
        gate_gradients.append(rows)
        projected.append(a)
        dh, dc = _replace_first_rows(dh, np.matmul(rows, w_hh)), _replace_first_rows(dc, b * forget)
    d = _join_in_row_order(gate_gradients[::-1], steps)
    previous = _states_before_steps(_split_steps(y, steps), h, steps) if needs[4] else None
    return _round_results(
        kind,
        np.matmul(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        dc if needs[2] else None,
        _rows_product(d, x) if needs[3] else None,
        _rows_product(d, previous) if needs[4] else None,
        np.sum(d, 0) if needs[5] or needs[6] else None,
        _rows_product(_join_in_row_order(projected[::-1], steps), whole) if needs[7] else None,
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
        return _input_sums(x, w, b_ih), None
    width = b_hh.shape[0] // 3
    counted = np.ones(3 * width, x.dtype)
    counted[2 * width :] = 0
    outer = b_hh * counted
    return _input_sums(x, w, outer if b_ih is None else outer + b_ih), b_hh[2 * width :]


@lowering("_gru_layer")
def _gru_layer(
    x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol, b_ih: Any = None,
    b_hh: Any = None, sizes: Sizes = (), reverse: bool = False, keep: bool = True,
) -> tuple[Symbol, ...]:
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = _cast_to(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps, width = Steps(sizes, reverse), h.shape[1]
    if whole_layer.becomes_one_kernel("gru", steps, width, kind):
        sums, of_new = _gru_inputs(x, w_ih, b_ih, b_hh)
        results = whole_layer.gru_layer(
            whole_layer.RecurrentLayer("gru", steps), sums, h, w_hh, of_new, keep
        )
        return (*_round_results(kind, *results[:2]), *results[2:])
    factor = np.full(3 * width, 0.5, inside)
    factor[2 * width :] = 1
    counted = factor.copy()
    counted[2 * width :] = 0  # the new gate's comes in with each step
    inputs = _input_sums(x, w_ih * factor[:, None], None if b_ih is None else b_ih * factor)
    inputs = inputs if b_hh is None else inputs + b_hh * counted
    turned = (w_hh * factor[:, None]).T
    of_new = None if b_hh is None else b_hh[2 * width :]
    ys, gates, inners = [], [], []
    for part in _split_steps(inputs, steps):
        state = _first_rows(h, part.shape[0])
        product = np.matmul(state, turned)
        both = np.tanh(part[:, : 2 * width] + product[:, : 2 * width]) * 0.5 + 0.5
        r, z = _parts_of(both, 2)
        inner = product[:, 2 * width :]
        inner = inner if of_new is None else inner + of_new
        new = np.tanh(part[:, 2 * width :] + r * inner)
        y = (state - new) * z + new
        h = _replace_first_rows(h, y)
        ys.append(y)
        gates.append(np.concatenate([both, new], 1))
        inners.append(inner)
    outputs = _round_results(kind, _join_in_row_order(ys, steps), h)
    return (
        (*outputs, _join_in_row_order(gates, steps), _join_in_row_order(inners, steps))
        if keep
        else outputs
    )


@lowering("_gru_adjoint")
def _gru_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol,
    y: Symbol, gates: Symbol, inner: Symbol, sizes: Sizes, reverse: bool,
    needs: Sequence[bool],
) -> tuple[Any, ...]:
    kind, inside = x.dtype, gates.dtype
    g_y, g_h, x, h, w_ih, w_hh, y = _cast_to(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps = Steps(sizes, reverse)
    if whole_layer.becomes_one_kernel("gru", steps, h.shape[1], kind):
        layer = whole_layer.RecurrentLayer("gru", steps)
        d, dx, dh = whole_layer.gru_adjoint(layer, (g_y, g_h), h, (y, gates, inner), w_hh, needs)
        of_x, of_w, _, of_bias = whole_layer.gradients(
            layer, dx, x, y, h, w_ih, (needs[0], None, None, needs[2], None, needs[4], False))
        of_h = (layer.weight(d, y, h) if needs[3] else None, np.sum(d, 0) if needs[5] else None)
        return _round_results(kind, of_x, dh, of_w, of_h[0], of_bias, of_h[1])
    w = _new_first(w_hh)
    before = _states_before_steps(_split_steps(y, steps), h, steps)
    r, z, new = _parts_of(gates, 3)
    of_n = (1 - new * new) * (1 - z)
    of_inner = of_n * r
    slopes = [_split_steps(v, steps) for v in (
        of_inner, (1 - r) * of_inner * inner, (before - new) * ((1 - z) * z), of_n, z)]
    shares = None if g_y is None else _split_steps(g_y, steps)
    dh = np.zeros_like(h) if g_h is None else g_h
    gate_gradients, news = [], []
    for t in reversed(range(len(steps.windows))):
        s_inner, s_r, s_z, s_n, keep = (v[t] for v in slopes)
        a = _first_rows(dh, s_n.shape[0])
        a = a if shares is None else a + shares[t]
        rows = np.concatenate([s_inner * a, s_r * a, s_z * a], 1)
        gate_gradients.append(rows)
        news.append(s_n * a)
        dh = _replace_first_rows(dh, a * keep + np.matmul(rows, w))
    from_h = _join_in_row_order(gate_gradients[::-1], steps)
    width = h.shape[1]
    from_x = np.concatenate([from_h[:, width:], _join_in_row_order(news[::-1], steps)], 1)
    return _round_results(
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
) -> tuple[Symbol, ...]:
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = _cast_to(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps, turned = Steps(sizes, reverse), w_hh.T
    inputs = _input_sums(x, w_ih, _biases(b_ih, b_hh))
    cell = "relu" if relu else "tanh"
    if whole_layer.becomes_one_kernel(cell, steps, h.shape[1], kind):
        layer = whole_layer.RecurrentLayer(cell, steps)
        return _round_results(kind, *whole_layer.simple_layer(layer, inputs, h, w_hh))
    ys = []
    for part in _split_steps(inputs, steps):
        z = part + np.matmul(_first_rows(h, part.shape[0]), turned)
        ys.append(np.maximum(z, 0) if relu else np.tanh(z))
        h = _replace_first_rows(h, ys[-1])
    return _round_results(kind, _join_in_row_order(ys, steps), h)


@lowering("_rnn_adjoint")
def _rnn_adjoint(
    g_y: Any, g_h: Any, x: Symbol, h: Symbol, w_ih: Symbol, w_hh: Symbol,
    y: Symbol, sizes: Sizes, reverse: bool, relu: bool, needs: Sequence[bool],
) -> tuple[Any, ...]:
    kind, inside = x.dtype, compute_dtype(x.dtype)
    g_y, g_h, x, h, w_ih, w_hh, y = _cast_to(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps, cell = Steps(sizes, reverse), "relu" if relu else "tanh"
    if whole_layer.becomes_one_kernel(cell, steps, h.shape[1], kind):
        layer = whole_layer.RecurrentLayer(cell, steps)
        d, dh = whole_layer.simple_adjoint(layer, (g_y, g_h), y, w_hh, needs)
        wanted = (needs[0], None, None, *needs[2:])
        gradients = whole_layer.gradients(layer, d, x, y, h, w_ih, wanted)
        return _round_results(kind, gradients[0], dh, *gradients[1:])
    slope = np.greater(y, 0).astype(inside) if relu else 1 - y * y
    slopes = _split_steps(slope, steps)
    shares = None if g_y is None else _split_steps(g_y, steps)
    dh = np.zeros_like(h) if g_h is None else g_h
    backwards = []
    for t in reversed(range(len(steps.windows))):
        a = _first_rows(dh, slopes[t].shape[0])
        a = a if shares is None else a + shares[t]
        backwards.append(slopes[t] * a)
        dh = _replace_first_rows(dh, np.matmul(backwards[-1], w_hh))
    d = _join_in_row_order(backwards[::-1], steps)
    return _round_results(
        kind,
        np.matmul(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        _rows_product(d, x) if needs[2] else None,
        _rows_product(d, _states_before_steps(_split_steps(y, steps), h, steps))
        if needs[3]
        else None,
        np.sum(d, 0) if needs[4] or needs[5] else None,
    )
