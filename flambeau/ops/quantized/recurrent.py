"""Recurrent layers and cells whose products are of 8-bit integers: torch.quantized_lstm, ...

The product with the whole input comes first, in one piece; each step then adds the one with the
hidden state, which is quantized anew by the span of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tensor.quantizers import SMALLEST_SCALE
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from ..creation.creation import public
from ..native.byte_products import try_byte_recurrent
from .backend import PackedParams
from .packed_linear import LinearPackedParams, Packed

State = Any  # an array, or (h, c) of an LSTM


class CellParams(PackedParams):
    """The packed weights of one layer and direction."""

    def __init__(self, packed_ih: Packed, packed_hh: Packed, reduce_range: bool) -> None:
        self.packed_ih, self.packed_hh, self.reduce_range = packed_ih, packed_hh, reduce_range

    def __getstate__(self) -> tuple[Any, ...]:
        parts = [self.packed_ih, self.packed_hh]
        return (("quantized_dynamic", [], [], [int(self.reduce_range)], parts),)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, _, _, (reduce_range,), (packed_ih, packed_hh) = state[0]
        CellParams.__init__(self, packed_ih, packed_hh, bool(reduce_range))

    def from_input(self, x: np.ndarray) -> np.ndarray:
        """Multiply the input by its weights."""
        return self.packed_ih.multiply_dynamic(x, self.reduce_range)

    def from_hidden(self, h: np.ndarray) -> np.ndarray:
        """Multiply the hidden state by its weights."""
        return self.packed_hh.multiply_dynamic(h, self.reduce_range)


def make_quantized_cell_params_dynamic(
    w_ih: Packed, w_hh: Packed, bias_ih: Any, bias_hh: Any, reduce_range: bool = False
) -> CellParams:
    """Pack the weights of a layer in 8-bit integers."""
    return CellParams(w_ih, w_hh, reduce_range)


def make_quantized_cell_params_fp16(w_ih: Packed, w_hh: Packed) -> CellParams:
    """Pack the weights of a layer in float16."""
    return CellParams(w_ih, w_hh, False)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


def _lstm_step(gates: np.ndarray, state: State, params: CellParams) -> State:
    h, c = state
    i, f, g, o = np.split(params.from_hidden(h) + gates, 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru_step(gates: np.ndarray, h: State, params: CellParams) -> State:
    from_x, from_h = np.split(gates, 3, -1), np.split(params.from_hidden(h), 3, -1)
    reset, update = _sigmoid(from_h[0] + from_x[0]), _sigmoid(from_h[1] + from_x[1])
    new = np.tanh(from_x[2] + from_h[2] * reset)
    return (h - new) * update + new


def _tanh_step(gates: np.ndarray, h: State, params: CellParams) -> State:
    return np.tanh(params.from_hidden(h) + gates)


def _relu_step(gates: np.ndarray, h: State, params: CellParams) -> State:
    return np.maximum(params.from_hidden(h) + gates, 0)


Step = Callable[[np.ndarray, State, CellParams], State]


def _list_parts(state: State) -> tuple[np.ndarray, ...]:
    return state if isinstance(state, tuple) else (state,)


def _run_direction(
    x: np.ndarray, sizes: Sequence[int], state: State, params: CellParams, step: Step,
    backward: bool,
) -> tuple[np.ndarray, State]:
    """One layer in one direction: rows of all steps, one behind another, `sizes[t]` of step t."""
    gates = params.from_input(x)
    result = _try_kernel(gates, sizes, state, params, step, backward)
    if result is not None:
        return result
    width = _list_parts(state)[0].shape[-1]
    outputs = np.empty((x.shape[0], width), np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    states = tuple(part.copy() for part in _list_parts(state))
    order = range(len(sizes) - 1, -1, -1) if backward else range(len(sizes))
    for t in order:
        rows, count = slice(starts[t], starts[t + 1]), sizes[t]
        before = tuple(part[:count] for part in states)
        after = _list_parts(step(gates[rows], before if len(before) > 1 else before[0], params))
        for part, new in zip(states, after, strict=True):
            part[:count] = new
        outputs[rows] = after[0]
    return outputs, states


_NATIVE_CELLS = {_lstm_step: "lstm", _gru_step: "gru"}


def _try_kernel(
    gates: np.ndarray, sizes: Sequence[int], state: State, params: CellParams, step: Step,
    backward: bool,
) -> tuple[np.ndarray, State] | None:
    """Run all steps in one kernel, if they have equally many rows, or return None."""
    packed = params.packed_hh
    if step not in _NATIVE_CELLS or len(set(sizes)) != 1 or not params.reduce_range \
            or not isinstance(packed, LinearPackedParams) or packed.panels is None:
        return None
    states = tuple(np.array(part, np.float32, order="C") for part in _list_parts(state))
    y = try_byte_recurrent(
        _NATIVE_CELLS[step], gates.reshape(len(sizes), sizes[0], gates.shape[-1]), states,
        packed.panels, packed.factors, (float(SMALLEST_SCALE), 127), backward)
    return None if y is None else (y.reshape(len(gates), -1), states)


def _run_layers(
    x: np.ndarray, sizes: Sequence[int], states: tuple[np.ndarray, ...],
    params: Sequence[CellParams], step: Step, directions: int, dropout: float,
) -> tuple[np.ndarray, list[list[np.ndarray]]]:
    """All layers; of each state one array for each layer and direction."""
    finals: list[list[np.ndarray]] = [[] for _ in states]
    layers = len(params) // directions
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            state = tuple(part[number] for part in states)
            y, last = _run_direction(x, sizes, state if len(state) > 1 else state[0],
                                     params[number],
                                     step,
                                     direction == 1)
            outputs.append(y)
            for collected, part in zip(finals, last, strict=True):
                collected.append(part)
        x = np.concatenate(outputs, -1) if directions > 1 else outputs[0]
        if dropout and layer + 1 < layers:
            x = PUBLIC["torch"]["dropout"](wrap(x), dropout, True)._array
    return x, finals


def _run(
    args: tuple[Any, ...], step: Step, states: tuple[Tensor, ...], params: Any, settings: Any,
) -> tuple[Tensor, ...]:
    input, batch_sizes = args
    _, _, dropout, train, bidirectional, batch_first = settings
    x = input._array
    if batch_sizes is None:
        if batch_first:
            x = x.swapaxes(0, 1)
        steps, count = x.shape[:2]
        sizes = [count] * steps
        rows = np.ascontiguousarray(x).reshape(steps * count, x.shape[2])
    else:
        sizes, rows = batch_sizes.tolist(), x
    y, finals = _run_layers(rows, sizes, tuple(s._array for s in states), params, step,
                            2 if bidirectional else 1, dropout if train else 0.0)
    if batch_sizes is None:
        y = y.reshape(steps, count, -1)
        y = np.ascontiguousarray(y.swapaxes(0, 1)) if batch_first else y
    return (wrap(y), *(wrap(np.stack(parts)) for parts in finals))


@public()
def quantized_lstm(input: Any, *args: Any, dtype: Any = None, use_dynamic: bool = False) -> Any:
    """Run an LSTM with packed weights and return (output, h, c).

    `(input, (h, c), params, bias, layers, dropout, train, bidirectional, batch_first)`, or for
    packed sequences `batch_sizes` after `input` and no `batch_first`.
    """
    batch_sizes, args = _split(args)
    hx, params, *settings = args
    settings = settings if batch_sizes is None else [*settings, False]
    return _run((input, batch_sizes), _lstm_step, tuple(hx), params, settings)


@public()
def quantized_gru(input: Any, *args: Any, dtype: Any = None, use_dynamic: bool = False) -> Any:
    """Run a GRU with packed weights and return (output, h); called like `quantized_lstm`."""
    batch_sizes, args = _split(args)
    hx, params, *settings = args
    settings = settings if batch_sizes is None else [*settings, False]
    return _run((input, batch_sizes), _gru_step, (hx,), params, settings)


def _split(args: tuple[Any, ...]) -> tuple[Tensor | None, tuple[Any, ...]]:
    """batch_sizes, if there are any, and the rest: what follows the states is a list of params."""
    if isinstance(args[1], (list, tuple)) and args[1] and isinstance(args[1][0], CellParams):
        return None, args
    return args[0], args[1:]


def _create_cell(step: Step) -> Callable[..., Any]:
    def cell(input: Tensor, hx: Any, w_ih: Packed, w_hh: Packed, b_ih: Any, b_hh: Any) -> Any:
        params = CellParams(w_ih, w_hh, True)
        state = tuple(h._array for h in hx) if isinstance(hx, (tuple, list)) else hx._array
        result = step(params.from_input(input._array), state, params)
        return tuple(map(wrap, result)) if isinstance(result, tuple) else wrap(result)

    return cell


quantized_lstm_cell_dynamic = _create_cell(_lstm_step)
quantized_gru_cell_dynamic = _create_cell(_gru_step)
quantized_rnn_tanh_cell_dynamic = _create_cell(_tanh_step)
quantized_rnn_relu_cell_dynamic = _create_cell(_relu_step)
