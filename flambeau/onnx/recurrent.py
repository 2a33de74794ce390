"""ONNX conversions of LSTM and GRU, whose gates ONNX orders differently."""

from __future__ import annotations

from typing import Any

from ..fx.node import Node
from .conversion_table import converts
from .graph_builder import GraphBuilder

# PyTorch's index of each gate, in ONNX's order.
_LSTM_GATES, _GRU_GATES = (0, 3, 1, 2), (1, 0, 2)


def _reorder_gates(b: GraphBuilder, weight: Any, order: tuple[int, ...]) -> str:
    parts = b.op("Split", b.value(weight), outputs=len(order), axis=0, num_outputs=len(order))
    return b.op("Concat", *(parts[i] for i in order), axis=0)


def _stack(b: GraphBuilder, parts: list[str]) -> str:
    return b.op("Concat", *(b.op("Unsqueeze", p, b.sizes([0])) for p in parts), axis=0)


def _convert_layers(
    b: GraphBuilder, kind: str, x: Any, states: list[Any], params: Any, has_biases: bool,
    num_layers: int, bidirectional: bool, batch_first: bool,
) -> Any:
    order = _LSTM_GATES if kind == "LSTM" else _GRU_GATES
    directions = 2 if bidirectional else 1
    params_per_layer = 4 if has_biases else 2
    if len(params) != params_per_layer * directions * num_layers:
        raise NotImplementedError(f"{kind} with a projection")
    value = b.value(x)
    if batch_first:
        value = b.op("Transpose", value, perm=[1, 0, 2])
    hidden = int(b.tensor(params[1]).shape[1])
    finals: list[list[str]] = [[] for _ in states]
    for layer in range(num_layers):
        layer_params = [params[(layer * directions + d) * params_per_layer :][:params_per_layer]
                        for d in range(directions)]
        w, r = (_stack(b, [_reorder_gates(b, p[i], order) for p in layer_params]) for i in (0, 1))
        bias = ""
        if has_biases:
            bias = _stack(b, [b.op("Concat", *(_reorder_gates(b, p[i], order) for i in (2, 3)),
                                   axis=0) for p in layer_params])
        start = b.sizes([layer * directions])
        stop = b.sizes([(layer + 1) * directions])
        first = [b.op("Slice", b.value(s), start, stop, b.sizes([0])) for s in states]
        extra = {"linear_before_reset": 1} if kind == "GRU" else {}
        out, *last = b.op(
            kind, value, w, r, bias, "", *first, outputs=1 + len(states), hidden_size=hidden,
            direction="bidirectional" if bidirectional else "forward", **extra,
        )
        for collected, state in zip(finals, last, strict=True):
            collected.append(state)
        # time, direction, batch, hidden: concatenate the directions
        joined = b.op("Transpose", out, perm=[0, 2, 1, 3])
        value = b.op("Reshape", joined, b.sizes([0, 0, -1]))
    if batch_first:
        value = b.op("Transpose", value, perm=[1, 0, 2])
    ends = [b.op("Concat", *f, axis=0) if len(f) > 1 else f[0] for f in finals]
    return (value, *ends)


@converts("lstm")
def _lstm(b: GraphBuilder, node: Node, x: Any, hx: Any, params: Any, has_biases: bool,
          num_layers: int, dropout: float, train: bool, bidirectional: bool,
          batch_first: bool) -> Any:
    return _convert_layers(b, "LSTM", x, list(hx), params, has_biases, num_layers, bidirectional,
                           batch_first)


@converts("gru")
def _gru(b: GraphBuilder, node: Node, x: Any, hx: Any, params: Any, has_biases: bool,
         num_layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> Any:
    return _convert_layers(b, "GRU", x, [hx], params, has_biases, num_layers, bidirectional,
                           batch_first)
