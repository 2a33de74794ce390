"""Mean and variance of batches in one pass, beside the convolution that makes them."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import Graph, Node, Op, apply, constant, reduce
from flambeau.compiler.passes.one_pass_moments import compute_moments_in_one_pass
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from ..execution_routes import assert_same, check, outcome, run
from ..random_graphs import graph_of, source, values

SHAPE = (2, 9, 10, 24)


@pytest.fixture(autouse=True)
def _even_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("split_reductions", "one_pass_moments"):
        monkeypatch.setattr(f"flambeau.compiler.passes.{name}.SECOND_PASS_CACHED_BYTES", 1 << 13)


def moments(x: Node) -> list[Node]:
    """What a batch norm's lowering makes: the mean, and the squared distances from it."""
    axes = tuple(range(len(x.shape) - 1))
    count = constant(float(np.prod(x.shape[:-1])), Type.F32, (1,) * len(x.shape))
    mean = apply(Scalar.DIV, reduce(x, ReduceOp.SUM, axes), count)
    apart = apply(Scalar.SUB, x, mean)
    squares = reduce(apply(Scalar.MUL, apart, apart), ReduceOp.SUM, axes)
    return [mean, apply(Scalar.DIV, squares, count)]


def convolution(stride: int = 1) -> Graph:
    extents = [stride * (n - 1) + 3 for n in SHAPE[1:3]]
    x, w = source(0, (SHAPE[0], *extents, 2)), source(1, (3, 3, 2, SHAPE[3]))
    inputs = {"stride": (stride, stride), "dilation": (1, 1), "groups": 1}
    y = Node(Op.CONV, (x, w), SHAPE, Type.F32, inputs)
    return graph_of([x, w], [y, *moments(y)])


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_makes_its_statistics(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.compiler.passes.one_pass_moments.MIN_OUTPUTS_PER_WEIGHT", 4)
    step = check(convolution(stride))
    sizes = [task.work for task in step.tasks]
    assert sum(size >= np.prod(SHAPE) for size in sizes) == 1, sizes  # the convolution alone


def test_one_pass_where_the_weight_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flambeau.compiler.passes.one_pass_moments.MIN_OUTPUTS_PER_WEIGHT", 1 << 20)
    step = check(convolution())
    assert sum(task.work >= np.prod(SHAPE) for task in step.tasks) == 2


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    x = source(0, SHAPE)
    y = apply(Scalar.MUL, x, x)
    graph = graph_of([x], [y, *moments(y)])
    inputs = values(graph, 0)
    inputs[0] = np.sqrt(1000 + np.random.default_rng(0).random(SHAPE)).astype(np.float32)
    _, actual = run(graph, inputs, 2)
    assert_same(actual, outcome(graph, inputs))
    exact = actual[0].astype(np.float64).reshape(-1, SHAPE[3])
    np.testing.assert_allclose(actual[1].reshape(-1), exact.mean(0), rtol=3e-7)
    np.testing.assert_allclose(actual[2].reshape(-1), exact.var(0), rtol=1e-5)


def test_columns_that_are_all_the_same_have_no_variance() -> None:
    x = source(0, SHAPE)
    y = apply(Scalar.MUL, x, x)
    graph = graph_of([x], [y, *moments(y)])
    inputs = [np.full(SHAPE, 3.0, np.float32)]
    _, actual = run(graph, inputs)
    assert (actual[2] == 0).all()


def test_what_is_no_mean_is_left_alone() -> None:
    x = source(0, SHAPE)
    y = apply(Scalar.MUL, x, x)
    apart = apply(Scalar.SUB, y, reduce(y, ReduceOp.MAXIMUM, (0, 1, 2)))
    graph = graph_of([x], [y, reduce(apply(Scalar.MUL, apart, apart), ReduceOp.SUM, (0, 1, 2))])
    before = sum(node.op is Op.SLICE for node in pipeline.optimize(graph).nodes())
    assert before == 0
    check(graph)


@pytest.mark.parametrize("case", ["another", "undivided", "two factors"])
def test_squares_of_other_distances_are_left_alone(case: str) -> None:
    x, z = source(0, SHAPE), source(1, SHAPE)
    y, other = apply(Scalar.MUL, x, x), apply(Scalar.MUL, z, z)
    count = constant(float(SHAPE[0] * SHAPE[1] * SHAPE[2]), Type.F32, (1, 1, 1, 1))
    total = reduce(other if case == "another" else y, ReduceOp.SUM, (0, 1, 2))
    mean = total if case == "undivided" else apply(Scalar.DIV, total, count)
    apart = apply(Scalar.SUB, y, mean)
    square = apply(Scalar.MUL, apart, other if case == "two factors" else apart)
    graph = graph_of([x, z], [y, other, total, reduce(square, ReduceOp.SUM, (0, 1, 2))])
    assert not any(node.op is Op.SLICE for node in compute_moments_in_one_pass(graph).nodes())
