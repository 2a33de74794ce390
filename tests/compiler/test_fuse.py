"""What groups store for one another: as little as later kernels can do with."""

from __future__ import annotations

from flambeau.compiler import pipeline
from flambeau.compiler.graph import Graph, Node, apply, constant, matmul, reduce
from flambeau.native.loops import Fold, Scalar, Type

from .random_graphs import graph_of, source
from .test_pipeline import check

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
    return graph_of([x, w, v, g, bias], [y, reduce(back, Fold.SUM, (0,))])


def test_forward_stores_the_slope_instead_of_what_it_is_made_of() -> None:
    check(gelu_step())
    _, _, plan = pipeline.planned(pipeline.optimised(gelu_step()))
    assert plan.size < 2.2 * BYTES  # gelu and slope, not also its input
