"""Exchanges in a program: started early, awaited late, in one order, and atomic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from flambeau.compiler.driver.pipeline import build
from flambeau.compiler.ir.exchange import Exchange, build_exchange, list_exchanges, replay_offline
from flambeau.compiler.ir.graph import (
    Graph, Node, Op, Source, SourceKind, apply, constant, matmul, reshape,
)
from flambeau.compiler.runtime.step_timing import time_step
from flambeau.native.loop_ir.ir import Scalar, Type

EXTENT = 64


class Doubler:
    """Stands for other processes: gives what it gets, twice; notes what happens when."""

    def __init__(self, log: list[str], name: str, fails: bool = False) -> None:
        self.log, self.name, self.fails = log, name, fails
        self.results: list[np.ndarray] = []
        self.exchange = Exchange(name, self.start, self.finish)

    def start(self, arrays: Sequence[np.ndarray]) -> None:
        self.log.append(f"start {self.name}")
        self.results = [2 * array for array in arrays]

    def finish(self) -> list[np.ndarray]:
        self.log.append(f"finish {self.name}")
        if self.fails:
            raise RuntimeError("a process is gone")
        return self.results


def program(states: list[np.ndarray], doublers: list[Doubler]) -> Any:
    """A program of a state for each exchange, `w += 2 w`, then what needs none: products of x."""
    kinds = [(SourceKind.STATE, array.shape, lambda array=array: array) for array in states]
    x = np.full((EXTENT, EXTENT), 0.01, np.float32)
    kinds.append((SourceKind.STATE, x.shape, lambda: x))
    sources = [Source(kind, shape, Type.F32, array) for kind, shape, array in kinds]
    inputs = [Node(Op.INPUT, (), s.shape, s.type, {"slot": k}) for k, s in enumerate(sources)]
    started, writes, outputs = None, [], []
    for k, doubler in enumerate(doublers):
        started, (result,) = build_exchange(doubler.exchange, [inputs[k]], started, "")
        writes.append((k, apply(Scalar.ADD, inputs[k], result)))
    square = matmul(inputs[-1], inputs[-1])
    outputs.append(apply(Scalar.MUL, square, constant(3.0, Type.F32, (1, 1))))
    return build(Graph(sources, inputs, outputs, writes))


def states(count: int) -> list[np.ndarray]:
    return [np.arange(4, dtype=np.float32) + k for k in range(count)]


def test_started_in_order_and_awaited_when_the_rest_is_done() -> None:
    log: list[str] = []
    arrays, doublers = states(3), [Doubler(log, name) for name in "abc"]
    wanted = [3 * array for array in arrays]
    step = program(arrays, doublers)
    (y,) = step.run([])
    assert log[:3] == ["start a", "start b", "start c"]
    assert sorted(log[3:]) == ["finish a", "finish b", "finish c"]
    np.testing.assert_allclose(y, 3 * 64 * 1e-4, rtol=1e-5)
    for array, value in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(array, value)
    names = [task.name for task in step.tasks]
    products = [i for i, name in enumerate(names) if "matmul" in name]
    assert max(products) < min(i for i, name in enumerate(names) if name.startswith("call_finish"))


def test_nothing_is_written_where_an_exchange_fails() -> None:
    arrays, log = states(2), []
    before = [array.copy() for array in arrays]
    step = program(arrays, [Doubler(log, "a"), Doubler(log, "b", fails=True)])
    with pytest.raises(RuntimeError, match="a process is gone"):
        step.run([])
    assert log[:2] == ["start a", "start b"]
    for array, value in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, value)


def test_offline_gives_what_was_recorded_and_measurements_communicate_nothing() -> None:
    log: list[str] = []
    (array,), doubler = states(1), Doubler(log, "a")
    step = program([array], [doubler])
    doubler.exchange.recorded = [array.copy()], [10 + 0 * array]
    with replay_offline(step.edges) as exchanges:
        step.run([])
        assert exchanges == list_exchanges(step.edges) == [doubler.exchange]
        np.testing.assert_array_equal(exchanges[0].seen[0], np.arange(4))
    np.testing.assert_array_equal(array, np.arange(4) + 10)
    doubler.exchange.recorded = None
    time_step(step, [], rounds=2)
    assert log == []


def test_what_an_exchange_sends_is_computed_before_what_it_does_not_need() -> None:
    """The sent product allocates much: by memory alone it would come last."""
    doubler = Doubler([], "a")
    x, v = np.full((EXTENT, EXTENT), 0.01, np.float32), np.ones((EXTENT, 1), np.float32)
    sources = [Source(SourceKind.STATE, a.shape, Type.F32, lambda a=a: a) for a in (x, v)]
    x_in, v_in = (Node(Op.INPUT, (), s.shape, s.type, {"slot": k}) for k, s in enumerate(sources))
    sent = reshape(matmul(x_in, x_in), (EXTENT * EXTENT,))
    _, (result,) = build_exchange(doubler.exchange, [sent], None, "")
    row = v_in
    for _ in range(3):
        row = matmul(x_in, row)
    step = build(Graph(sources, [x_in, v_in], [row, result], []))
    names = [task.name for task in step.tasks]
    start = next(i for i, name in enumerate(names) if name.startswith("call_start"))
    assert sum("matmul" in name for name in names[:start]) == 1, names
    (_, actual) = step.run([])
    np.testing.assert_allclose(actual, 2 * 64 * 1e-4, rtol=1e-5)


@pytest.mark.parametrize("is_read_elsewhere", [False, True])
def test_what_is_sent_is_replaced_where_it_lies_unless_others_read_it(
    is_read_elsewhere: bool,
) -> None:
    received: list[np.ndarray] = []

    def start(arrays: Sequence[np.ndarray]) -> None:
        received[:] = arrays
        for array in arrays:
            array *= 2

    x = np.full((EXTENT, EXTENT), 0.01, np.float32)
    source = Source(SourceKind.STATE, x.shape, Type.F32, lambda: x)
    x_in = Node(Op.INPUT, (), x.shape, Type.F32, {"slot": 0})
    product = matmul(x_in, x_in)
    sent = [reshape(product, (EXTENT * EXTENT,)),
            reshape(matmul(product, x_in), (EXTENT * EXTENT,))]
    exchange = Exchange("double", start, lambda: received)
    _, results = build_exchange(exchange, sent[not is_read_elsewhere :], None, "")
    outputs = [apply(Scalar.ADD, r, constant(1.0, Type.F32, (1,))) for r in results]
    step = build(Graph([source], [x_in], outputs, []))
    wanted = [2 * 64 * 1e-4 + 1, 2 * 64**2 * 1e-6 + 1][not is_read_elsewhere :]
    for y, value in zip(step.run([]), wanted, strict=True):
        np.testing.assert_allclose(y, value, rtol=1e-5)
    in_arena = [np.shares_memory(array, step.arena) for array in received]
    assert in_arena == ([False, True] if is_read_elsewhere else [True])
