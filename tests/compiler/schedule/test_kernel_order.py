"""Groups run in an order in which little memory is alive."""

from __future__ import annotations

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import apply, matmul, permute
from flambeau.native.loop_ir.ir import Scalar

from ..random_graphs import graph_of, source

EXTENT = 64
BYTES = 4 * EXTENT * EXTENT


def test_the_gradient_of_a_weight_comes_before_the_next_layer() -> None:
    """Backward through products: what a weight's gradient reads is not kept until the end."""
    weights = [source(k, (EXTENT, EXTENT)) for k in range(8)]
    g = source(8, (EXTENT, EXTENT))
    saved = [apply(Scalar.TANH, w) for w in weights]
    gradients = []
    at = g
    for weight in saved:
        gradients.append(matmul(permute(at, (1, 0)), weight))
        at = apply(Scalar.EXP, matmul(at, weight))
    graph = graph_of([*weights, g], [at, *gradients])
    _, _, plan = pipeline.plan(pipeline.optimize(graph))
    assert plan.size < 5 * BYTES
