"""Sums over the rows of what kernels make, added up by the kernels that make it."""

from __future__ import annotations

import pytest

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import Graph, Node, Op, apply, constant, matmul, reduce, reshape
from flambeau.compiler.passes.split_reductions import split_reductions
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from ..execution_routes import assert_same, bound, check, interpreted, outcome, run
from ..random_graphs import graph_of, source, values

ROWS, COLUMNS = 192, 48


@pytest.fixture(autouse=True)
def _even_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "flambeau.compiler.passes.split_reductions.SECOND_PASS_CACHED_BYTES", 4 * ROWS * COLUMNS
    )
    monkeypatch.setattr("flambeau.compiler.passes.split_reductions.threads", lambda: 4)


def masked_product() -> tuple[list[Node], Node, Node]:
    """A product, nothing where it is negative, which another product reads."""
    x, w, v = source(0, (ROWS, 8)), source(1, (8, COLUMNS)), source(2, (COLUMNS, 32))
    zero = constant(0.0, Type.F32, (1, 1))
    y = apply(Scalar.MAXIMUM, matmul(x, w), zero)
    return [x, w, v], y, matmul(y, v)


def passes_over(graph: Graph) -> int:
    """How many kernels go over the rows, not over parts of sums alone."""
    return sum(task.work >= ROWS * COLUMNS for task in check(graph).tasks)


def test_a_product_adds_up_its_columns() -> None:
    sources, y, z = masked_product()
    graph = graph_of(sources, [z, reduce(y, ReduceOp.SUM, (0,))])
    assert passes_over(graph) == 2


def test_in_another_shape_too() -> None:
    sources, y, z = masked_product()
    images = reshape(y, (4, ROWS // 16, 4, COLUMNS))
    total = reshape(reduce(images, ReduceOp.SUM, (0, 1, 2)), (COLUMNS,))
    assert passes_over(graph_of(sources, [z, total])) == 2


def test_rows_that_are_folded_add_up_columns_as_well() -> None:
    """As a layer norm's backward does: sums along rows, and of columns, of what it is made of."""
    x = source(0, (ROWS, COLUMNS))
    weight = source(1, (1, COLUMNS))
    g = apply(Scalar.MUL, x, x)
    share = apply(Scalar.SUB, apply(Scalar.MUL, g, weight), reduce(g, ReduceOp.SUM, (1,)))
    sums = [reduce(apply(Scalar.MUL, factor, x), ReduceOp.SUM, (0,)) for factor in (share, g)]
    assert passes_over(graph_of([x, weight], [share, *sums])) == 1


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_with_other_threads_than_there_were(threads: int) -> None:
    sources, y, z = masked_product()
    graph = graph_of(sources, [z, reduce(y, ReduceOp.SUM, (0,))])
    inputs = values(graph, 0)
    _, actual = run(graph, inputs, threads)
    assert_same(actual, outcome(graph, inputs))


def test_what_its_loops_mean() -> None:
    sources, y, z = masked_product()
    graph = graph_of(sources, [z, reduce(y, ReduceOp.SUM, (0,))])
    inputs = values(graph, 0)
    bound(graph, inputs)
    assert_same(interpreted(graph, inputs), outcome(graph, inputs)[:2])


def test_long_sums_are_cut() -> None:
    rows = 1 << 15
    x = source(0, (16, rows // 16, 1, 16))
    y = apply(Scalar.MUL, x, x)
    graph = pipeline.optimize(graph_of([x], [y, reduce(y, ReduceOp.SUM, (0, 1, 2))]))
    (parts,) = [node for node in graph.nodes() if node.op is Op.SUM_PARTS]
    assert parts.shape[1:] == (1, rows // 16, 1, 16)


@pytest.mark.parametrize("shape", [(ROWS, 4), (16, COLUMNS)])
def test_few_columns_or_rows_are_left_alone(shape: tuple[int, int]) -> None:
    x = source(0, shape)
    y = apply(Scalar.MUL, x, x)
    graph = pipeline.optimize(graph_of([x], [y, reduce(y, ReduceOp.SUM, (0,))]))
    assert not any(node.op is Op.SUM_PARTS for node in graph.nodes())


def _operands(kind: Type = Type.F32) -> tuple[Node, Node]:
    x = source(0, (ROWS * 4, COLUMNS), kind)
    return x, apply(Scalar.MUL, x, x)


@pytest.mark.parametrize("case", ["maximum", "float64", "rows", "given", "columns and rows"])
def test_what_is_no_sum_of_columns_that_a_kernel_makes_is_left_alone(case: str) -> None:
    x, y = _operands(Type.F64 if case == "float64" else Type.F32)
    fold = ReduceOp.MAXIMUM if case == "maximum" else ReduceOp.SUM
    axes = {"rows": (1,), "columns and rows": (0, 1)}.get(case, (0,))
    graph = graph_of([x], [y, reduce(x if case == "given" else y, fold, axes)])
    assert not any(node.op is Op.SUM_PARTS for node in split_reductions(graph).nodes())


def test_short_sums_are_left_alone_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _operands()
    graph = graph_of([x], [y, reduce(y, ReduceOp.SUM, (0,))])
    assert any(node.op is Op.SUM_PARTS for node in split_reductions(graph).nodes())
    monkeypatch.setattr(
        "flambeau.compiler.passes.split_reductions.SECOND_PASS_CACHED_BYTES",
        4 * (ROWS * 4 * COLUMNS + 1),
    )
    assert not any(node.op is Op.SUM_PARTS for node in split_reductions(graph).nodes())
