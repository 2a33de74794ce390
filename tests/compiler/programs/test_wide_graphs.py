"""Graphs of every kind of node and type compute the same as machine code, on one thread and two."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import (
    Node, Op, apply, constant, expand, matmul, reshape, strided_slice,
)
from flambeau.native.loop_ir.ir import Scalar, Type

from ..execution_routes import bound, check, outcome
from ..random_graphs import graph_of, source
from ..wide_graphs import wide_graph, wide_values

BOUNDS = {"float64": 1e-6, "float32": 3e-4, "bfloat16": 5e-2}


def assert_close(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        wanted = b.astype(np.float64)
        bound_ = BOUNDS.get(a.dtype.name, 0.0)
        largest = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(
            a.astype(np.float64), wanted, rtol=bound_, atol=bound_ * max(1.0, largest / 10),
            err_msg=f"result {number}",
        )


# Those after the range went wrong once: a table read by the kernel that makes it, positions in the
# midst of other work, a stretched table, bool states, the last lane of narrow rows, running sums.
@pytest.mark.parametrize("seed", [*range(40), 68, 85, 114, 131, 195, 213, 214, 273, 350, 362, 402,
                                  570, 620, 728, 845, 949])
def test_programs_compute_what_graphs_do(seed: int) -> None:
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_more_programs_compute_what_graphs_do(seed: int) -> None:
    compare(seed)


def compare(seed: int) -> None:
    graph = wide_graph(seed)
    inputs = wide_values(graph, seed)
    expected = outcome(graph, inputs)
    states = bound(graph, inputs)
    step = pipeline.build(graph)
    first = None
    for threads in (1, 2, 2):
        for state, value in zip(states, inputs, strict=True):
            state[...] = value
        step.arena[...] = 0xFF
        step.threads = threads
        actual = [array.copy() for array in [*step.run([]), *states]]
        if first is None:
            assert_close(actual, expected)
            first = actual
        for a, b in zip(actual, first, strict=True):
            assert a.tobytes() == b.tobytes(), "two threads compute something else than one"


def test_positions_that_strides_cannot_say() -> None:
    x = source(0, (6,))
    rows = Node(Op.IOTA, (), (2, 1), Type.I64, {"axis": 0})
    rows = reshape(expand(rows, (2, 3)), (6,))
    check(graph_of([x], [rows, apply(Scalar.MUL, rows, constant(2, Type.I64))]))


def test_a_table_made_by_the_kernel_that_reads_it() -> None:
    x, index = source(0, (5, 7)), Node(Op.IOTA, (), (5, 7), Type.I64, {"axis": 1})
    turned = apply(Scalar.SUB, constant(6, Type.I64), index)
    doubled = apply(Scalar.TANH, apply(Scalar.ADD, x, x))
    taken = Node(Op.TAKE_ALONG, (doubled, turned), (5, 7), Type.F32, {"axis": 1})
    check(graph_of([x], [doubled, apply(Scalar.ADD, taken, taken)], [(0, taken)]))


def test_a_table_seen_through_what_strides_cannot_say() -> None:
    x = source(0, (4, 6))
    index = Node(Op.IOTA, (), (3,), Type.I64, {"axis": 0})
    part = strided_slice(x, (0, 1), (1, 1), (4, 5))
    taken = Node(Op.TAKE, (part, index), (3, 5), Type.F32)
    check(graph_of([x], [reshape(taken, (15,)), reshape(x, (24,))]))


def test_products_of_numbers_that_are_all_the_same() -> None:
    x = source(0, (4, 6))
    check(graph_of([x], [matmul(x, constant(0.5, Type.F32, (6, 3)))]))
