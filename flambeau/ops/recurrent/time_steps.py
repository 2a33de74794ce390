"""What recurrent operators share: time steps, layers and directions, dropout between layers.

Inside, a sequence is (rows, features) with the rows of one time step after those of another, so
that padded batches and packed ones, whose steps get smaller, are the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..creation.dropout import dropout
from ..linalg.linear import linear
from ..linalg.matmul import multiply_matrices
from ..view.join import cat, stack


class Steps:
    """The time steps of a sequence: `sizes[t]` rows each, walked backward if `reverse`."""

    __slots__ = ("batch", "dense", "rows", "windows")

    def __init__(self, sizes: tuple[int, ...], reverse: bool) -> None:
        self.batch = max(sizes, default=0)
        self.dense = len(set(sizes)) <= 1
        windows, start = [], 0
        for n in sizes:
            windows.append((start, start + n))
            start += n
        self.rows = start
        self.windows = windows[::-1] if reverse else windows

    def previous(self, states: np.ndarray, first: np.ndarray) -> np.ndarray:
        """Return the state before each row's step; `first` is the state before all steps."""
        result = np.empty_like(states)
        if self.dense and self.rows:
            n = self.batch
            if self.windows[0][0] == 0:
                result[:n], result[n:] = first, states[:-n]
            else:
                result[-n:], result[:-n] = first, states[n:]
            return result
        stored = first.copy()
        for start, end in self.windows:
            result[start:end] = stored[: end - start]
            stored[: end - start] = states[start:end]
        return result


def combine_biases(b_ih: np.ndarray | None, b_hh: np.ndarray | None) -> np.ndarray | None:
    """Return the sum of the biases that are present."""
    return b_hh if b_ih is None else b_ih if b_hh is None else b_ih + b_hh


def add_biases(
    gates: np.ndarray, b_ih: np.ndarray | None, b_hh: np.ndarray | None,
    factor: np.ndarray | None = None,
) -> None:
    """Add the biases that are present, times `factor`, to every row."""
    bias = combine_biases(b_ih, b_hh)
    if bias is not None:
        gates += bias if factor is None else bias * factor


def clear_last_gate(bias: np.ndarray | None, gates: int) -> np.ndarray | None:
    """Return a recurrent bias without the last gate's part, which the cell itself adds."""
    if bias is None:
        return None
    result = bias.copy()
    result[len(bias) // gates * (gates - 1) :] = 0
    return result


def multiply_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a.T @ b: a weight's gradient from the cotangents and inputs of all steps."""
    return multiply_matrices(a.T, b)


def iterate_steps(x: Tensor, sizes: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, Tensor]]:
    """(the step's number of rows, its rows), in the order in which steps are walked."""
    parts = list(x.split(list(sizes)))
    order = range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes))
    for t in order:
        yield t, parts[t]


def run_in_operators(
    cell: str, x: Tensor, states: tuple[Tensor, ...], w_ih: Tensor, w_hh: Tensor,
    b_ih: Tensor | None, b_hh: Tensor | None, sizes: tuple[int, ...], reverse: bool,
    w_hr: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """(the first state of every step, the last states), step by step in recorded operators."""
    from ...native.kernels.recurrent_cells import CELLS

    gates, forward = CELLS[cell].gates, CELLS[cell].forward
    result: list[Any] = [None] * len(sizes)
    for t, part in iterate_steps(linear(x, w_ih, b_ih), sizes, reverse):
        n, stored = sizes[t], states[0]._array.shape[0]
        state = dict(zip("hc", states if n == stored else [s[:n] for s in states], strict=False))
        values = forward({**state, "x": part.chunk(gates, 1),
                          "s": linear(state["h"], w_hh, b_hh).chunk(gates, 1)})
        y = values["y"][0] if w_hr is None else linear(values["y"][0], w_hr)
        new = (y, *values["cells"]) if "c" in state else (y,)
        result[t] = y
        states = new if n == stored else tuple(
            cat([a, s[n:]]) for a, s in zip(new, states, strict=True)
        )
    return (cat(result), *states)


# ------------------------------------------------------------------------------------- the stack

# (rows, initial states, weights, sizes, reverse) to (rows, last states).
Layer = Callable[[Tensor, tuple[Tensor, ...], Sequence[Tensor], tuple[int, ...], bool], tuple]


def run_layers(
    layer: Layer, x: Tensor, states: tuple[Tensor, ...], weights: list[Sequence[Tensor]],
    sizes: tuple[int, ...], bidirectional: bool, dropout_p: float,
) -> tuple[Tensor, ...]:
    """(the rows of the last layer, the last states of all layers and directions)."""
    directions = 2 if bidirectional else 1
    layers = len(weights) // directions
    finals: list[tuple[Tensor, ...]] = []
    for number in range(layers):
        outputs = []
        for direction in range(directions):
            k = number * directions + direction
            first = tuple(s.select(0, k) for s in states)
            y, *last = layer(x, first, weights[k], sizes, direction == 1)
            outputs.append(y)
            finals.append(tuple(last))
        x = outputs[0] if directions == 1 else cat(outputs, 1)
        if dropout_p and number < layers - 1:
            x = dropout(x, dropout_p, True)
    return (x, *(stack(s) for s in zip(*finals, strict=True)))


def group_layers(
    params: Sequence[Tensor], each: int, count: int, name: str
) -> list[Sequence[Tensor]]:
    """Return the parameters of each layer and direction; RuntimeError if miscounted."""
    if len(params) != each * count:
        raise RuntimeError(
            f"{name}: got an incorrect number of RNN parameters: {len(params)}, expected "
            f"{each} for each of {count} layers and directions"
        )
    return [params[i : i + each] for i in range(0, len(params), each)]


def check_states(
    name: str, states: Sequence[Tensor], count: int, batch: int, widths: Sequence[int], x: Tensor
) -> None:
    """Raise RuntimeError unless each state is (count, batch, width) of the input's dtype."""
    for state, width in zip(states, widths, strict=True):
        if state._array.ndim != 3 or state._array.shape[0] < count:
            raise RuntimeError(
                f"Expected more hidden states in stacked_rnn ({name}: {list(state.shape)} for "
                f"{count} layers and directions)"
            )
        if state._array.shape != (count, batch, width):
            raise RuntimeError(
                f"{name}: Expected hidden size {(count, batch, width)}, got {list(state.shape)}"
            )
        if state._array.dtype != x._array.dtype:
            raise RuntimeError(
                f"{name}: input and hidden states must have the same dtype, got {x.dtype} and "
                f"{state.dtype}"
            )


def run_stack(
    name: str, layer: Layer, x: Tensor, states: tuple[Tensor, ...], params: Sequence[Tensor],
    each: int, widths: Sequence[int], options: tuple, batch_sizes: Tensor | None,
) -> tuple[Tensor, ...]:
    """(output, last states) of a recurrent operator, from (num_layers, dropout, train,
    bidirectional, batch_first)."""
    num_layers, dropout_p, train, bidirectional, batch_first = options
    count = num_layers * (2 if bidirectional else 1)
    weights = group_layers(params, each, count, name)
    p = dropout_p if train else 0.0
    if batch_sizes is not None:
        sizes = tuple(batch_sizes.tolist())
        check_states(name, states, count, max(sizes, default=0), widths, x)
        return run_layers(layer, x, states, weights, sizes, bidirectional, p)
    if x._array.ndim != 3:
        raise IndexError(
            f"{name}: Dimension out of range: input must have 3 dimensions (time, batch, "
            f"features), got {list(x.shape)}"
        )
    if batch_first:
        x = x.transpose(0, 1)
    time, batch, width = x._array.shape
    check_states(name, states, count, batch, widths, x)
    if time == 0:
        raise RuntimeError(f"{name}: Expected sequence length to be larger than 0 in RNN")
    y, *last = run_layers(layer, x.reshape(time * batch, width), states, weights,
                          (batch,) * time, bidirectional, p)
    y = y.reshape(time, batch, y.shape[-1])
    return (y.transpose(0, 1) if batch_first else y, *last)


def choose_overload(args: tuple, kwargs: dict, names: tuple[str, ...], name: str) -> tuple[dict,
                                                                                           Any]:
    """Return the arguments by name, and batch_sizes if the packed form was called."""
    packed = "batch_sizes" in kwargs or "data" in kwargs or (
        len(args) > 2 and isinstance(args[1], Tensor) and not isinstance(args[2], bool)
        and len(args) + len(kwargs) == len(names) and not isinstance(args[3], bool)
    )
    if packed:
        names = ("data", "batch_sizes", *names[1:-1])
    values = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(values) != set(names):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: expected {', '.join(names)}"
        )
    values.setdefault("batch_first", False)
    if packed:
        values["input"] = values.pop("data")
    return values, values.pop("batch_sizes", None)


# ----------------------------------------------------------------------------------------- cells


def check_cell(
    x: Tensor, states: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor
) -> None:
    """Raise RuntimeError if a cell's input or states do not fit its weights."""
    if x._array.ndim != 2:
        raise IndexError(
            f"Dimension out of range: a cell's input must be (batch, features), got {list(x.shape)}"
        )
    batch, width = x._array.shape
    if width != w_ih._array.shape[1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {width} expected {w_ih._array.shape[1]}"
        )
    for i, state in enumerate(states):
        if state._array.shape[0] != batch:
            raise RuntimeError(
                f"Input batch size {batch} doesn't match hidden{i} batch size "
                f"{state._array.shape[0]}"
            )
        if state._array.shape[1:] != (w_hh._array.shape[1],):
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {state._array.shape[-1]}, expected "
                f"{w_hh._array.shape[1]}"
            )
