"""What groups store for one another: as little as later kernels can do with."""

from __future__ import annotations

import pytest

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import (
    Graph, Node, apply, concat, constant, matmul, pad, permute, reduce, reshape,
)
from flambeau.native.loop_ir.ir import ReduceOp, LoopKind, Loop, Scalar, Type, iterate_statements

from ..execution_routes import check
from ..random_graphs import graph_of, source

ROWS, COLUMNS = 96, 160
BYTES = 4 * ROWS * COLUMNS


def gelu_step() -> Graph:
    """Two products with gelu between them, and the gradient of what goes into the gelu."""
    x, w = source(0, (ROWS, 8)), source(1, (8, COLUMNS))
    v, g = source(2, (COLUMNS, 8)), source(3, (8, COLUMNS))

    def number(value: float) -> Node:
        return constant(value, Type.F32, (1, 1))

    bias = source(4, (1, COLUMNS))
    z = apply(Scalar.ADD, matmul(x, w), bias)
    share = apply(Scalar.ERF, apply(Scalar.MUL, z, number(0.7071)))
    share = apply(Scalar.MUL, apply(Scalar.ADD, share, number(1.0)), number(0.5))
    y = matmul(apply(Scalar.MUL, z, share), v)
    bell = apply(Scalar.EXP, apply(Scalar.MUL, apply(Scalar.MUL, z, z), number(-0.5)))
    slope = apply(Scalar.ADD, share, apply(Scalar.MUL, z, bell))
    back = apply(Scalar.MUL, matmul(y, g), slope)
    return graph_of([x, w, v, g, bias], [y, reduce(back, ReduceOp.SUM, (0,))])


def test_forward_stores_the_slope_instead_of_what_it_is_made_of() -> None:
    check(gelu_step())
    _, _, plan = pipeline.plan(pipeline.optimize(gelu_step()))
    assert plan.size < 2.2 * BYTES  # gelu and slope, not also its input


def test_what_is_only_turned_is_written_so() -> None:
    """Heads put side by side, a concatenation turned: no kernel of their own."""
    x = source(0, (4, 3, 6, 8))
    heads = [matmul(x, permute(apply(f, x), (0, 1, 3, 2))) for f in (Scalar.TANH, Scalar.SIN)]
    both = concat([reshape(head, (1, *head.shape)) for head in heads], 0)
    side = reshape(permute(both, (1, 3, 0, 2, 4)), (24, 36))
    graph = graph_of([x], [matmul(side, permute(side, (1, 0))), reduce(side, ReduceOp.SUM, (0,))])
    step = check(graph)
    assert [task.name for task in step.tasks].count("copy") == 0
    assert len(step.tasks) <= 5, [task.name for task in step.tasks]  # two products, turned TANH
    # and SIN in them or before them, the last product and the sum


def test_costly_work_on_few_columns_is_not_a_product_s_epilogue() -> None:
    x, y = source(0, (64, 16)), source(1, (16, 4))
    product = matmul(x, y)
    step = check(graph_of([x, y], [apply(Scalar.EXP, product)]))
    assert len(step.tasks) == 2


@pytest.mark.parametrize("rows", [16, 33, 4096, 64 * 65, 20000])
def test_short_rows_lie_across_the_lanes(rows: int) -> None:
    """A softmax over few classes, its maximum's place and the sum of its logarithms."""
    x = source(0, (rows, 3))
    top = reduce(x, ReduceOp.MAXIMUM, (1,))
    e = apply(Scalar.EXP, apply(Scalar.SUB, x, top))
    total = reduce(e, ReduceOp.SUM, (1,))
    outputs = [
        apply(Scalar.DIV, e, total),
        apply(Scalar.LOG, total),
        reduce(e, ReduceOp.ARGMAX, (1,)),
    ]
    step = check(graph_of([x], outputs))
    loops = [s for s in iterate_statements(step.tasks[0].kernel.body) if isinstance(s, Loop)]
    lanes = {loop.extent for loop in loops if loop.kind is LoopKind.VECTORIZED}
    assert (3 in lanes) == (rows == 20000)  # too many for one thread, and not whole vectors


def test_padding_of_a_constant_behind_a_reshape_is_masked() -> None:
    x = source(0, (16,))
    border = pad(constant(1.0, Type.F32, (4,)), (2,), (2,))
    other = pad(constant(3.0, Type.F32, (4,)), (1,), (3,))
    behind = pad(apply(Scalar.MUL, other, border), (3,), (5,))
    check(graph_of([x], [reshape(pad(border, (0,), (8,)), (4, 4)), reshape(behind, (2, 8)),
                         apply(Scalar.MUL, x, pad(border, (4,), (4,)))]))
