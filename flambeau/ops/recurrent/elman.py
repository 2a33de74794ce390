"""Elman's recurrent network, h = tanh(W x + U h + b) or relu of it: all the steps of a layer in one
operator, with its own backward through time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.backward import compute_differentiable_adjoint
from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ..core.operator import Array, publish
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..linalg.matmul import multiply_matrices
from .lstm import cast_arrays
from .native import compute_input_sums, drop_missing, prepare
from .tangents import compute_with_tangents, push_layer
from .time_steps import (
    Steps, add_biases, check_cell, choose_overload, combine_biases, multiply_rows,
    run_in_operators, run_stack,
)


def _samples(rng: Rng) -> Iterator[Sample]:
    for sizes, reverse, relu in (((2, 2), False, False), ((3, 2, 1), True, False),
                                 ((2, 2), True, True)):
        yield (rng.normal(size=(sum(sizes), 4)), rng.normal(size=(sizes[0], 3)),
               rng.normal(size=(3, 4)), rng.normal(size=(3, 3)), rng.normal(size=3),
               rng.normal(size=3), sizes, reverse, relu), {}


def _reference(
    x: np.ndarray, h: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray,
    b_hh: np.ndarray, sizes: tuple[int, ...], reverse: bool, relu: bool
) -> tuple[np.ndarray, np.ndarray]:
    y, h = np.empty((len(x), h.shape[1])), h.copy()
    starts = np.cumsum([0, *sizes])
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n, rows = sizes[t], slice(starts[t], starts[t + 1])
        z = x[rows] @ w_ih.T + b_ih + h[:n] @ w_hh.T + b_hh
        y[rows] = h[:n] = np.maximum(z, 0) if relu else np.tanh(z)
    return y, h


@opaque(layout=Layout.FREE,
        name="_rnn_layer", node="RnnLayerBackward0", expose=(), ref=_reference, samples=_samples)
def rnn_layer(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None,
    b_hh: Array | None = None, sizes: Any = (), reverse: bool = False, relu: bool = False,
) -> tuple[Array, Array]:
    """Return (h of every row, last h) for x (rows, input) and h (batch, hidden)."""
    kind, inside = x.dtype, compute_dtype(x.dtype)
    x, h, w_ih, w_hh, b_ih, b_hh = cast_arrays(inside, x, h, w_ih, w_hh, b_ih, b_hh)
    steps = Steps(sizes, reverse)
    whole_layer = prepare(_choose_cell(relu), steps, w_hh, ("x", "h"), ("y", "h"))
    if whole_layer is not None:
        result = whole_layer({"x": compute_input_sums(x, w_ih, combine_biases(b_ih, b_hh)), "h": h})
        return result["y"].astype(kind, copy=False), result["h"].astype(kind, copy=False)
    turned = np.ascontiguousarray(w_hh.T)
    y = np.dot(x, w_ih.T)
    add_biases(y, b_ih, b_hh)
    scratch = np.empty(h.shape, inside)
    h = h if steps.dense else h.copy()
    for start, end in steps.windows:
        n, result = end - start, y[start:end]
        result += np.dot(h[:n], turned, scratch[:n])
        if relu:
            np.maximum(result, 0, out=result)
        else:
            np.tanh(result, result)
        if steps.dense:
            h = result
        else:
            h[:n] = result
    return y.astype(kind, copy=False), h.copy().astype(kind, copy=False)


def _choose_cell(relu: bool) -> str:
    return "relu" if relu else "tanh"


@rnn_layer.jvp
def _(
    x_t: Tensor | None, h_t: Tensor | None, w_ih_t: Tensor | None, w_hh_t: Tensor | None,
    b_ih_t: Tensor | None, b_hh_t: Tensor | None, ys: tuple[Tensor, ...], x: Tensor, h: Tensor,
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, sizes: Any, reverse: bool,
    relu: bool
) -> tuple[Tensor | None, ...]:
    return push_layer(_choose_cell(relu), (x_t, h_t, None, w_ih_t, w_hh_t, b_ih_t, b_hh_t, None),
                      (x, h, None, w_ih, w_hh, b_ih, b_hh, None), sizes, reverse, len(ys))


@rnn_layer.value_and_jvp
def _(
    x_t: Array | None, h_t: Array | None, w_ih_t: Array | None, w_hh_t: Array | None,
    b_ih_t: Array | None, b_hh_t: Array | None, x: Array, h: Array, w_ih: Array, w_hh: Array,
    b_ih: Array | None, b_hh: Array | None, sizes: Any, reverse: bool, relu: bool
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    return compute_with_tangents(
        _choose_cell(relu), (x_t, h_t, None, w_ih_t, w_hh_t, b_ih_t, b_hh_t, None),
        (x, h, None, w_ih, w_hh, b_ih, b_hh, None), sizes, reverse)


@rnn_layer.vjp
def _(
    gs: tuple[Tensor | None, ...], ys: tuple[Tensor, ...], x: Tensor, h: Tensor, w_ih: Tensor,
    w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, sizes: Any, reverse: bool, relu: bool,
    needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    if MODE.grad:
        return compute_differentiable_adjoint(
            partial(_run_in_operators, sizes=sizes, reverse=reverse, relu=relu),
            (x, h, w_ih, w_hh, b_ih, b_hh), gs, needs)
    dx, dh, dw_ih, dw_hh, db = rnn_adjoint(
        *gs, x, h, w_ih, w_hh, ys[0], sizes, reverse, relu, needs
    )
    return dx, dh, dw_ih, dw_hh, db, db


@opaque(layout=Layout.FREE,
        name="_rnn_adjoint", expose=(), differentiable=False, ref=None, samples=None)
def rnn_adjoint(
    g_y: Array | None, g_h: Array | None, x: Array, h: Array, w_ih: Array, w_hh: Array, y: Array,
    sizes: Any, reverse: bool, relu: bool, needs: Any,
) -> tuple[Array | None, ...]:
    """Return the cotangents of x, h, w_ih, w_hh and a bias."""
    kind, inside = x.dtype, compute_dtype(x.dtype)
    g_y, g_h, x, h, w_ih, w_hh, y = cast_arrays(inside, g_y, g_h, x, h, w_ih, w_hh, y)
    steps = Steps(sizes, reverse)
    inputs = drop_missing({"y": y, "gy": g_y, "dh": g_h})
    whole_layer = prepare(_choose_cell(relu), steps, w_hh, tuple(inputs), ("d", "dh"), "backward")
    if whole_layer is not None:
        back = whole_layer(inputs)
        return _compute_gradients(back["d"], back["dh"], x, h, w_ih, y, steps, kind, needs)
    d = (y > 0).astype(inside) if relu else np.subtract(1, y * y)
    dh = np.zeros(h.shape, inside) if g_h is None else g_h.copy()
    for start, end in reversed(steps.windows):
        a, rows = dh[: end - start], d[start:end]
        if g_y is not None:
            a += g_y[start:end]
        rows *= a
        np.dot(rows, w_hh, a)
    return _compute_gradients(d, dh, x, h, w_ih, y, steps, kind, needs)


def _compute_gradients(
    d: Array, dh: Array, x: Array, h: Array, w_ih: Array, y: Array, steps: Steps, kind: np.dtype,
    needs: tuple[bool, ...],
) -> tuple[Array | None, ...]:
    """The cotangents that are needed, from those of the sums."""
    result = (
        multiply_matrices(d, w_ih) if needs[0] else None,
        dh if needs[1] else None,
        multiply_rows(d, x) if needs[2] else None,
        multiply_rows(d, steps.previous(y, h)) if needs[3] else None,
        np.add.reduce(d, 0) if needs[4] or needs[5] else None,
    )
    return tuple(None if v is None else v.astype(kind, copy=False) for v in result)


def _run_in_operators(
    x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool,
    relu: bool
) -> tuple[Tensor, ...]:
    """The layer's results in recorded operators."""
    return run_in_operators(_choose_cell(relu), x, (h,), w_ih, w_hh, b_ih, b_hh, sizes, reverse)


_NAMES = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
          "batch_first")


def _describe(name: str, formula: str, function: Any, cell: Any) -> None:
    """Write the docstrings of a layer's function and its cell's."""
    function.__doc__ = f"""(output, h) of {formula}.

    {name}(input, h, params, has_biases, num_layers, dropout, train, bidirectional, batch_first),
    or {name}(data, batch_sizes, h, params, ..., bidirectional) for a packed sequence. `params`
    lists for each layer and direction w_ih, w_hh and, with biases, b_ih, b_hh. RuntimeError where
    shapes do not fit. Elman, 1990.

    >>> params = [torch.zeros(8, 4), torch.zeros(8, 8)]  # w_ih, w_hh
    >>> x, h = torch.zeros(5, 2, 4), torch.zeros(1, 2, 8)
    >>> output, h = torch.{name}(x, h, params, False, 1, 0.0, False, False, False)
    >>> output.shape, h.shape
    (torch.Size([5, 2, 8]), torch.Size([1, 2, 8]))
    """
    cell.__doc__ = f"""h after one step of {formula}.

    input (batch, features), hx (batch, hidden). RuntimeError where shapes do not fit.

    >>> torch.{name}_cell(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1), -torch.eye(1))
    tensor([[0.]])
    """


def _declare(name: str, relu: bool, formula: str) -> None:
    """Declare torch.name over layers, and torch.name_cell for one step."""

    def layer(
        x: Tensor, states: tuple[Tensor, ...], weights: Sequence[Tensor | None],
        sizes: tuple[int, ...], reverse: bool
    ) -> tuple[Any, ...]:
        return rnn_layer(x, *states, *(*weights, None, None)[:4], sizes, reverse, relu)

    def function(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        supplied, batch_sizes = choose_overload(args, kwargs, _NAMES, name)
        params, params_per_layer = supplied["params"], 4 if supplied["has_biases"] else 2
        options = tuple(supplied[n] for n in _NAMES[4:])
        return run_stack(name, layer, supplied["input"], (supplied["hx"],), params,
                         params_per_layer,
                         (params[0]._array.shape[0],), options, batch_sizes)

    def cell(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
        b_hh: Tensor | None = None
    ) -> Tensor:
        check_cell(input, (hx,), w_ih, w_hh)
        return layer(input, (hx,), (w_ih, w_hh, b_ih, b_hh), (input._array.shape[0],), False)[1]

    _describe(name, formula, function, cell)
    for result, public in ((function, name), (cell, f"{name}_cell")):
        result.__name__ = result.__qualname__ = public
        explained = composite(name=public, expose=(), explains=True)(result)
        publish(explained, (public,), ("torch",))


_declare("rnn_tanh", False, "h = tanh(W x + U h + b)")
_declare("rnn_relu", True, "h = relu(W x + U h + b)")
