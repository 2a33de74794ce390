"""Exchange: a collective of a program, as two calls: one starts it, the other waits for it.

Kernels that need no result run in between. While a program is checked or timed, nothing travels:
the other processes would not take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Type
from .graph import Graph, Node, Op

Arrays = Sequence[np.ndarray]
_TOKEN = np.zeros(1, np.int32)
EXCHANGE_TURN = "turn"  # the attribute of its CALL nodes, EARLY or LATE:
EARLY, LATE = -1, 1  # when a call runs, among those that could: as soon as it can, as late


class Exchange:
    """A collective of whole arrays.

    `start` is given contiguous arrays, which are its own until `finish`, and returns at once;
    `finish` returns the results, as many arrays of the same shapes: the same ones, where it wrote
    into them. `recorded` holds what a recorded call gave and what came of it.
    """

    def __init__(
        self, name: str, start: Callable[[Arrays], None], finish: Callable[[], Arrays]
    ) -> None:
        self.__name__ = name
        self._start, self._finish = start, finish
        self.recorded: tuple[Arrays, Arrays] | None = None
        self.is_offline = False
        self.seen: Arrays = ()  # what an offline run gave

    def start(self, *arrays: np.ndarray, replaced: Sequence[int] = ()) -> np.ndarray:
        """Starts the collective; returns a token, which has no meaning.

        Arrays at the positions `replaced` are given away, of others it takes copies.
        """
        if self.is_offline:
            self.seen = [array.copy() for array in arrays]
        else:
            self._start([array if i in replaced else array.copy()
                         for i, array in enumerate(arrays)])
        return _TOKEN

    def finish(self, *_: np.ndarray) -> Arrays:
        """Waits for the results."""
        if not self.is_offline:
            return self._finish()
        return self.seen if self.recorded is None else self.recorded[1]


class _Part:
    """The function of a CALL node: one half of an exchange."""

    def __init__(self, exchange: Exchange, name: str, call: Callable) -> None:
        self.exchange, self.__name__, self.call = exchange, f"{name}_{exchange.__name__}", call

    def __call__(self, *arrays: np.ndarray, **options: Any) -> np.ndarray | Arrays:
        result: np.ndarray | Arrays = self.call(*arrays, **options)
        return result


def exchanged(
    exchange: Exchange, arrays: Sequence[Node], after: Node | None, origin: str
) -> tuple[Node, list[Node]]:
    """The node that starts an exchange of flat arrays, and its results.

    `after` is the start of the exchange before: all processes start theirs in one order.
    """
    inputs = (*arrays, *(() if after is None else (after,)))
    count = len(arrays)
    start = Node(Op.CALL, inputs, (1,), Type.I32, {
        "function": _Part(exchange, "start", lambda *operands, **options: exchange.start(
            *operands[:count], **options)),
        "output": 0, "group": object(), EXCHANGE_TURN: EARLY,
    }, origin)
    shared = {"function": _Part(exchange, "finish", exchange.finish), "group": object(),
              EXCHANGE_TURN: LATE}
    results = [Node(Op.CALL, (start,), array.shape, array.type, {**shared, "output": i}, origin)
               for i, array in enumerate(arrays)]
    return start, results


def what_is_replaced(result: Node) -> tuple[Node, int] | None:
    """For a result of an exchange the node that starts it, and the position of the array there
    that has the result's place; None for other nodes."""
    if result.op is Op.CALL and result.attributes.get(EXCHANGE_TURN) == LATE:
        return result.inputs[0], result.attributes["output"]
    return None


def exchanges_of(graph: Graph) -> list[Exchange]:
    """The exchanges of a graph, in order."""
    parts = [node.function for node in graph.nodes() if node.op is Op.CALL]
    return list({id(part.exchange): part.exchange for part in parts if isinstance(part, _Part)}
                .values())


@contextmanager
def offline(graph: Graph) -> Iterator[list[Exchange]]:
    """Inside, exchanges of a graph give what was recorded, or what they are given."""
    exchanges = exchanges_of(graph)
    for exchange in exchanges:
        exchange.is_offline = True
    try:
        yield exchanges
    finally:
        for exchange in exchanges:
            exchange.is_offline, exchange.seen = False, ()
