"""Exchange: a collective in a program, split into two calls: one starts it, one waits for it.

Kernels that do not need the results run in between. Exchanges are offline while a program is
checked or timed, because the other processes do not take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ...native.loop_ir.ir import Type
from .errors import CheckFailed
from .graph import Graph, Node, Op

Arrays = Sequence[np.ndarray]
_TOKEN = np.zeros(1, np.int32)
EXCHANGE_TURN = "turn"  # attribute of an exchange's CALL nodes: EARLY or LATE
REFUSALS = (RuntimeError, ValueError, IndexError, ArithmeticError)  # what operators raise
EARLY, LATE = -1, 1  # the call runs as early, or as late, as its operands allow


class Exchange:
    """A collective of whole arrays.

    `start` takes ownership of contiguous arrays until `finish`, and returns at once. `finish` waits
    for the results, which have the same shapes, and may be the same arrays, written in place.
    `recorded` holds the operands and results of the recorded call.
    """

    def __init__(
        self, name: str, start: Callable[[Arrays], None], finish: Callable[[], Arrays]
    ) -> None:
        self.__name__ = name
        self._start, self._finish = start, finish
        self.recorded: tuple[Arrays, Arrays] | None = None
        self.is_offline = False
        self.seen: Arrays = ()  # the operands of an offline run

    def start(self, *arrays: np.ndarray, replaced: Sequence[int] = ()) -> np.ndarray:
        """Start the collective and return a token, so that `finish` can depend on it.

        Take ownership of the arrays at the positions `replaced`; copy the others.
        """
        if self.is_offline:
            self.seen = [array.copy() for array in arrays]
        else:
            self._start([array if i in replaced else array.copy()
                         for i, array in enumerate(arrays)])
        return _TOKEN

    def finish(self, *_: np.ndarray) -> Arrays:
        """Wait for the results and return them."""
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


def build_exchange(
    exchange: Exchange, arrays: Sequence[Node], after: Node | None, origin: str
) -> tuple[Node, list[Node]]:
    """Build the nodes of an exchange of flat arrays; return the start node and the results.

    `after` is the start node of the previous exchange: every process must start them in the same
    order.
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


def find_replaced_operand(result: Node) -> tuple[Node, int] | None:
    """For a result of an exchange, return its start node and the position of the operand that the
    result replaces; None for other nodes.
    """
    if result.op is Op.CALL and result.attributes.get(EXCHANGE_TURN) == LATE:
        return result.inputs[0], result.attributes["output"]
    return None


def list_exchanges(graph: Graph) -> list[Exchange]:
    """The exchanges of a graph, in topological order."""
    parts = [node.function for node in graph.nodes() if node.op is Op.CALL]
    return list({id(part.exchange): part.exchange for part in parts if isinstance(part, _Part)}
                .values())


def fail_check(call: Node, error: Exception) -> NoReturn:
    """Raise CheckFailed where an eager function rejected its values with `error`.

    Nothing is written yet, and the eager call that runs instead raises the real error. Errors of an
    exchange propagate unchanged, because other processes took part.
    """
    if EXCHANGE_TURN in call.attributes:
        raise error
    raise CheckFailed from error


@contextmanager
def replay_offline(graph: Graph) -> Iterator[list[Exchange]]:
    """Make a graph's exchanges inside return their recorded results, or their operands if none."""
    exchanges = list_exchanges(graph)
    for exchange in exchanges:
        exchange.is_offline = True
    try:
        yield exchanges
    finally:
        for exchange in exchanges:
            exchange.is_offline, exchange.seen = False, ()
