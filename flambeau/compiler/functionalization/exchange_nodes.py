"""add_exchange: a recorded collective becomes two nodes, between which others may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...native.loop_ir.ir import Scalar
from ..ir.errors import Unfit
from ..ir.exchange import build_exchange
from ..ir.graph import Node, apply, concat, constant, reshape, strided_slice
from ..trace.trace import Event

if TYPE_CHECKING:
    from .functionalize import Functionalization


def add_exchange(graph: Functionalization, event: Event) -> None:
    """Pack the tensors into flat arrays, exchange these, and unpack the results."""
    if graph.trace.backward is not None:
        raise Unfit("it communicates with other processes and returns a tensor that requires grad",
                    event.line)
    exchange, scale = event.function, event.kwargs["scale"]
    flat = [
        concat([_scale_row(reshape(graph.read(w), (w.size,)), scale) for w in group], 0)
        for group in event.args
    ]
    graph.started, results = build_exchange(exchange, flat, graph.started, event.origin)
    for group, result, recorded in zip(event.args, results, exchange.recorded[1], strict=True):
        offset = 0
        for w in group:
            graph.write(w, reshape(strided_slice(result, (offset,), (1,), (w.size,)), w.shape))
            offset += w.size
        # An output that depends on the exchange keeps it alive, because the other processes take
        # part.
        graph.outputs.append(strided_slice(result, (0,), (1,), (1,)))
        graph.bindings.expected.append(recorded[:1].copy())


def _scale_row(row: Node, scale: float) -> Node:
    return row if scale == 1 else apply(Scalar.MUL, row, constant(scale, row.type, (1,)))
