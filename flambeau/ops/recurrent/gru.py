"""GRU: one operator for all the steps of a layer, with its own backward through time.

PyTorch orders the gates r z n; the new gate is tanh(x_n + r (W_hn h + b_hn)). The part of the gates
that comes from h is stored separately in the order n r z, so that its cotangents and those of the
part from x overlap in one array of n r z n'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...autograd.backward import compute_differentiable_adjoint
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.target.eager_costs import BLOCK_ELEMENTS
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..linalg.matmul import multiply_matrices
from .lstm import cast_arrays
from .native import compute_input_sums, drop_missing, prepare
from .tangents import compute_with_tangents, push_layer
from .time_steps import (
    Steps, add_biases, check_cell, choose_overload, clear_last_gate, combine_biases,
    multiply_rows, run_in_operators, run_stack,
)


def _samples(rng: Rng) -> Iterator[Sample]:
    for sizes, reverse in (((2, 2, 2), False), ((3, 2, 1), True)):
        yield (rng.normal(size=(sum(sizes), 4)), rng.normal(size=(sizes[0], 3)),
               rng.normal(size=(9, 4)), rng.normal(size=(9, 3)), rng.normal(size=9),
               rng.normal(size=9), sizes, reverse), {}


def _reference(
    x: np.ndarray, h: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray,
    b_hh: np.ndarray, sizes: tuple[int, ...], reverse: bool
) -> tuple[np.ndarray, np.ndarray]:
    y, h = np.empty((len(x), h.shape[1])), h.copy()
    starts = np.cumsum([0, *sizes])
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n, rows = sizes[t], slice(starts[t], starts[t + 1])
        xr, xz, xn = np.split(x[rows] @ w_ih.T + b_ih, 3, 1)
        hr, hz, hn = np.split(h[:n] @ w_hh.T + b_hh, 3, 1)
        r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
        h[:n] = (1 - z) * np.tanh(xn + r * hn) + z * h[:n]
        y[rows] = h[:n]
    return y, h


def _move_new_first(w: Array) -> Array:
    """Reorder rows r z n to n r z."""
    width = len(w) // 3
    return np.concatenate((w[2 * width :], w[: 2 * width]))


@opaque(layout=Layout.FREE,
        name="_gru_layer", node="GruLayerBackward0", expose=(), constant_outputs=(2, 3),
        ref=_reference, samples=_samples)
def gru_layer(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None,
    b_hh: Array | None = None, sizes: Any = (), reverse: bool = False, keep: bool = True
) -> tuple[Array, ...]:
    """Return (h of every row, last h, and for backward: the gates, W_hn h + b_hn).

    x (rows, input), h (batch, hidden).
    """
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = cast_arrays(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps, width = Steps(sizes, reverse), h.shape[1]
    results = _run_in_one_kernel(steps, x, h, w_ih, w_hh, b_ih, b_hh, keep)
    if results is not None:
        return (*(v.astype(kind, copy=False) for v in results[:2]), *results[2:])
    factor = np.ones(3 * width, inside)
    factor[: 2 * width] = 0.5  # sigmoid(x) = (tanh(x / 2) + 1) / 2
    gates = np.dot(x, (w_ih * factor[:, None]).T)
    add_biases(gates, b_ih, clear_last_gate(b_hh, 3), factor)
    w = _move_new_first(w_hh)
    w[width:] *= 0.5
    turned = np.ascontiguousarray(w.T)
    y, inner = (np.empty((steps.rows, width), inside) for _ in range(2))
    scratch = np.empty((steps.batch, 3 * width), inside)
    h = h if steps.dense else h.copy()
    for start, end in steps.windows:
        n = end - start
        part = np.dot(h[:n], turned, scratch[:n])
        both, new, out = gates[start:end, : 2 * width], gates[start:end, 2 * width :], y[start:end]
        both += part[:, width:]
        np.tanh(both, both)
        both *= 0.5
        both += 0.5
        hidden_part = inner[start:end]
        if b_hh is None:
            hidden_part[...] = part[:, :width]
        else:
            np.add(part[:, :width], b_hh[2 * width :], hidden_part)
        new += np.multiply(both[:, :width], hidden_part, out)
        np.tanh(new, new)
        np.subtract(h[:n], new, out)
        out *= both[:, width:]
        out += new
        if steps.dense:
            h = out
        else:
            h[:n] = out
    last, y = h.copy().astype(kind, copy=False), y.astype(kind, copy=False)
    return (y, last, gates, inner) if keep else (y, last)


def _run_in_one_kernel(
    steps: Steps, x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None,
    b_hh: Array | None, keep: bool,
) -> list[Array] | None:
    """Return y, h and, with `keep`, gates and W_hn h + b_hn from a kernel, or None."""
    inputs = drop_missing({"h": h, "bias": None if b_hh is None else b_hh[2 * h.shape[1] :]})
    wanted = ("y", "h", "gates", "inner") if keep else ("y", "h")
    layer = prepare("gru", steps, w_hh, ("x", *inputs), wanted)
    if layer is None:
        return None
    bias = combine_biases(b_ih, clear_last_gate(b_hh, 3))
    outputs = layer({"x": compute_input_sums(x, w_ih, bias), **inputs})
    return [outputs[name] for name in wanted]


@gru_layer.jvp
def _(
    x_t: Tensor | None, h_t: Tensor | None, w_ih_t: Tensor | None, w_hh_t: Tensor | None,
    b_ih_t: Tensor | None, b_hh_t: Tensor | None, ys: tuple[Tensor, ...], x: Tensor, h: Tensor,
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, sizes: Any, reverse: bool
) -> tuple[Tensor | None, ...]:
    return push_layer("gru", (x_t, h_t, None, w_ih_t, w_hh_t, b_ih_t, b_hh_t, None),
                      (x, h, None, w_ih, w_hh, b_ih, b_hh, None), sizes, reverse, len(ys))


@gru_layer.value_and_jvp
def _(
    x_t: Array | None, h_t: Array | None, w_ih_t: Array | None, w_hh_t: Array | None,
    b_ih_t: Array | None, b_hh_t: Array | None, x: Array, h: Array, w_ih: Array, w_hh: Array,
    b_ih: Array | None, b_hh: Array | None, sizes: Any, reverse: bool, keep: bool
) -> tuple[tuple[Array, ...], tuple[Array, ...]] | None:
    return None if keep else compute_with_tangents(
        "gru", (x_t, h_t, None, w_ih_t, w_hh_t, b_ih_t, b_hh_t, None),
        (x, h, None, w_ih, w_hh, b_ih, b_hh, None), sizes, reverse)


@gru_layer.vjp
def _(
    gs: tuple[Tensor, Tensor, None, None], ys: tuple[Tensor, ...], x: Tensor, h: Tensor,
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, sizes: Any, reverse: bool,
    needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    if MODE.grad:
        return compute_differentiable_adjoint(lambda *inputs: _run_in_operators(*inputs, sizes,
                                                                                reverse),
                                              (x, h, w_ih, w_hh, b_ih, b_hh), gs[:2], needs)
    return gru_adjoint(gs[0], gs[1], x, h, w_ih, w_hh, ys[0], *ys[2:4], sizes, reverse, needs)


def _compute_factors(gates: Array, inner: Array, before: Array) -> Array:
    """The derivative of h by each gate, in the order n (from h), r, z, n (from x)."""
    width = before.shape[1]
    result = np.empty((len(gates), 4 * width), gates.dtype)
    step = max(1, BLOCK_ELEMENTS // max(gates.shape[1], 1))
    for start in range(0, len(gates), step):
        rows = slice(start, start + step)
        r, z, n = (gates[rows, k * width : (k + 1) * width] for k in range(3))
        of_inner, of_r, of_z, of_n = (result[rows, k * width : (k + 1) * width] for k in range(4))
        np.multiply(n, n, of_n)
        np.subtract(1, of_n, of_n)
        rest = 1 - z
        of_n *= rest
        np.multiply(of_n, r, of_inner)
        np.subtract(1, r, of_r)
        of_r *= of_inner
        of_r *= inner[rows]
        np.subtract(before[rows], n, of_z)
        rest *= z
        of_z *= rest
    return result


@opaque(layout=Layout.FREE,
        name="_gru_adjoint", expose=(), differentiable=False, ref=None, samples=None)
def gru_adjoint(
    g_y: Array | None, g_h: Array | None, x: Array, h: Array, w_ih: Array, w_hh: Array, y: Array,
    gates: Array, inner: Array, sizes: Any, reverse: bool, needs: Any
) -> tuple[Array | None, ...]:
    """Return the cotangents of x, h, w_ih, w_hh, b_ih and b_hh."""
    kind, inside = x.dtype, gates.dtype
    g_y, g_h, x, h, w_ih, w_hh, y = cast_arrays(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps, width = Steps(sizes, reverse), h.shape[1]
    inputs = drop_missing({"gates": gates, "inner": inner, "previous": y, "first": h, "gy": g_y,
                           "dh": g_h})
    whole_layer = prepare("gru", steps, w_hh, tuple(inputs), ("d", "dx", "dh"), "backward")
    if whole_layer is not None:
        result = whole_layer(inputs)
        from_x, from_h = result["dx"], result["d"]
        gradients = (
            multiply_matrices(from_x, w_ih) if needs[0] else None,
            result["dh"] if needs[1] else None,
            multiply_rows(from_x, x) if needs[2] else None,
            multiply_rows(from_h, steps.previous(y, h)) if needs[3] else None,
            np.add.reduce(from_x, 0) if needs[4] else None,
            np.add.reduce(from_h, 0) if needs[5] else None,
        )
        return tuple(None if v is None else v.astype(kind, copy=False) for v in gradients)
    before, w = steps.previous(y, h), _move_new_first(w_hh)
    d = _compute_factors(gates, inner, before)
    dh = np.zeros(h.shape, inside) if g_h is None else g_h.copy()
    part = np.empty(h.shape, inside)
    for start, end in reversed(steps.windows):
        a, rows = dh[: end - start], d[start:end]
        if g_y is not None:
            a += g_y[start:end]
        each = rows.reshape(end - start, 4, width)
        each *= a[:, None, :]
        a *= gates[start:end, width : 2 * width]
        a += np.dot(rows[:, : 3 * width], w, part[: end - start])
    from_x, from_h = d[:, width:], d[:, : 3 * width]
    gradients = (
        np.dot(from_x, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        multiply_rows(from_x, x) if needs[2] else None,
        _move_new_last(multiply_rows(from_h, before)) if needs[3] else None,
        np.add.reduce(from_x, 0) if needs[4] else None,
        _move_new_last(np.add.reduce(from_h, 0)) if needs[5] else None,
    )
    return tuple(None if v is None else v.astype(kind, copy=False) for v in gradients)


def _move_new_last(w: Array) -> Array:
    """Reorder rows n r z to r z n."""
    width = len(w) // 3
    return np.concatenate((w[width:], w[:width]))


def _run_in_operators(*operands: Any) -> tuple:
    """Return the layer's first two results, computed in recorded operators."""
    x, h, w_ih, w_hh, b_ih, b_hh, sizes, reverse = operands
    return run_in_operators("gru", x, (h,), w_ih, w_hh, b_ih, b_hh, sizes, reverse)


def _run_layer(
    x: Tensor, states: tuple[Tensor, ...], weights: Sequence[Tensor], sizes: tuple[int, ...],
    reverse: bool,
) -> tuple[Any, ...]:
    """Run one direction of one layer."""
    keep = MODE.grad and any(v._tracked and requires(v) for v in (x, *states, *weights))
    w_ih, w_hh, b_ih, b_hh = (*weights, None, None)[:4]
    return gru_layer(x, *states, w_ih, w_hh, b_ih, b_hh, sizes, reverse, keep)[:2]


_NAMES = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
          "batch_first")


@repeats_operators()
@composite(expose=("torch",))
def gru(*args: Any, **kwargs: Any) -> Any:
    """Run a GRU over a sequence and return (output, h).

    gru(input, h, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or
    gru(data, batch_sizes, h, params, ..., bidirectional) for a packed sequence. `params` lists, for
    each layer and direction, w_ih, w_hh and, with biases, b_ih, b_hh. RuntimeError if shapes do
    not fit. Cho et al., 2014.

    >>> params = [torch.zeros(24, 4), torch.zeros(24, 8)]  # w_ih, w_hh
    >>> x, h = torch.zeros(5, 2, 4), torch.zeros(1, 2, 8)
    >>> output, h = torch.gru(x, h, params, False, 1, 0.0, False, False, False)
    >>> output.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([1, 2, 8]))
    """
    bound, batch_sizes = choose_overload(args, kwargs, _NAMES, "gru")
    params, params_per_layer = bound["params"], 4 if bound["has_biases"] else 2
    width = params[0]._array.shape[0] // 3
    options = tuple(bound[n] for n in _NAMES[4:])
    return run_stack("gru", _run_layer, bound["input"], (bound["hx"],), params, params_per_layer,
                     (width,),
                     options,
                     batch_sizes)


@composite(expose=("torch",), explains=True)
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None
) -> Any:
    """Return h after one GRU step: input (batch, features), hx (batch, hidden).

    >>> h = torch.ones(2, 8)
    >>> torch.gru_cell(torch.zeros(2, 4), h, torch.zeros(24, 4), torch.zeros(24, 8))[0, :2]
    tensor([0.5000, 0.5000])
    """
    check_cell(input, (hx,), w_ih, w_hh)
    weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
    return _run_layer(input, (hx,), weights, (input._array.shape[0],), False)[1]
