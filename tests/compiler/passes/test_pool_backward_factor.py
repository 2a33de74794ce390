"""Factors of a pool's gradient are those of the places that count, and read in their order."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import Graph, Node, Op, apply, constant, reduce, reshape
from flambeau.compiler.fusion.fusion import Fusion
from flambeau.compiler.passes.pool_backward_factor import factor_pool_backward
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from ..random_graphs import graph_of, source, values
from ..driver.test_pipeline import assert_same, check, outcome

F32 = Type.F32
FINE, ROWS, COARSE = (3, 4, 2, 5, 2, 7), (3, 4, 1, 5, 1, 7), (3, 8, 10, 7)
AXES = (2, 4)


def literal(numbers: list[int]) -> Node:
    value = np.array(numbers, np.int32).reshape(1, 1, 2, 1, 2, 1)
    return Node(Op.ARRAY, (), value.shape, Type.I32, {"value": value})


def hits(x: Node, order: Node, last: int = 3) -> Node:
    """Where each window of x has its first maximum."""
    tops = apply(Scalar.EQ, x, reduce(x, ReduceOp.MAXIMUM, AXES))
    numbers = apply(Scalar.WHERE, tops, order, constant(last, Type.I32, (1,) * 6))
    return apply(Scalar.EQ, order, reduce(numbers, ReduceOp.MINIMUM, AXES))


def spread(hit: Node, share: Node, other: float = 0.0) -> Node:
    return apply(Scalar.WHERE, hit, share, constant(other, F32, (1,) * 6))


def sizes(graph: Graph) -> list[int]:
    """Elements of the products in a graph."""
    return [int(np.prod(n.shape)) for n in graph.nodes()
            if n.op is Op.APPLY and n.operation is Scalar.MUL]


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_factor_is_worked_out_where_it_counts(merged: bool, swapped: bool) -> None:
    """From the pool's input, and from another array that this is made of."""
    x, g = source(0, COARSE if merged else FINE), source(1, ROWS)
    z = apply(Scalar.EXP, x)
    y = apply(Scalar.ADD, x, z)
    slope = apply(Scalar.SUB, apply(Scalar.NEG, y), apply(Scalar.SIN, z))
    slope = apply(Scalar.ADD, slope, constant(2.0, F32, (1,) * len(slope.shape)))
    y, slope = (reshape(node, FINE) for node in (y, slope))
    back = spread(hits(y, literal([0, 1, 2, 3])), g)
    pair = (slope, back) if swapped else (back, slope)
    graph = graph_of([x, g], [apply(Scalar.MUL, *pair)])
    result = factor_pool_backward(graph)
    assert sizes(graph) == [np.prod(FINE)]
    assert sizes(result) == [np.prod(ROWS)]
    inputs = values(graph, 0)
    assert_same(outcome(result, inputs), outcome(graph, inputs))
    check(graph)


def test_several_factors_in_turn() -> None:
    x, g = source(0, FINE), source(1, ROWS)
    hit = hits(x, literal([3, 1, 0, 2]))
    back = apply(Scalar.MUL, spread(hit, g), apply(Scalar.EXP, x))
    graph = graph_of([x, g], [apply(Scalar.MUL, apply(Scalar.SIN, x), back)])
    assert sizes(factor_pool_backward(graph)) == [np.prod(ROWS)] * 2
    check(graph)


@pytest.mark.parametrize(
    "case", ["later", "many", "twice the same", "another last", "not zero", "not a sum", "part"]
)
def test_what_stays_as_it_is(case: str) -> None:
    """Where more than one place may be meant, or the factor is of other things."""
    x, g, w = source(0, FINE), source(1, ROWS), source(2, FINE)
    order = literal([0, 1, 1, 3] if case == "twice the same" else [0, 1, 2, 3])
    back = spread(hits(x, order, 7 if case == "another last" else 3), g,
                  1.0 if case == "not zero" else 0.0)
    factor = apply(Scalar.EXP, w if case == "later" else x)
    if case == "many":
        factor = apply(Scalar.ADD, factor, w)
    if case == "part":
        factor = reduce(x, ReduceOp.SUM, (0,))
    operation = Scalar.ADD if case == "not a sum" else Scalar.MUL
    graph = graph_of([x, g, w], [apply(operation, back, factor)])
    result = factor_pool_backward(graph)
    assert [(n.op, n.shape) for n in result.nodes()] == [(n.op, n.shape) for n in graph.nodes()]
    check(graph)


@pytest.mark.parametrize("activation", [F.gelu, F.silu, torch.tanh, F.relu, torch.sin])
@pytest.mark.parametrize(("size", "kernel"), [((8, 8), 2), ((9, 7), 2), ((6, 5), (3, 1))])
def test_training_over_a_pool_is_that_of_eager_mode(activation, size, kernel) -> None:
    torch.manual_seed(0)
    weight = torch.randn(5, 3, 3, 3, requires_grad=True)
    bias = torch.randn(5, requires_grad=True)

    def step(x: torch.Tensor) -> tuple:
        weight.grad = bias.grad = None
        y = F.max_pool2d(activation(F.conv2d(x, weight, bias, padding=1)), kernel)
        loss = (y * y).sum()
        loss.backward()
        return loss.detach(), weight.grad + 0, bias.grad + 0

    compiled = torch.compile(step, mode="now", fullgraph=True)
    for _ in range(4):
        x = torch.randn(2, 3, *size)
        x[0, 0, 0, 0] = x[0, 0, 0, 1]  # equal maxima
        for a, b in zip(compiled(x), step(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-4)


def test_a_gradient_in_another_order_is_turned_once() -> None:
    """A linear layer's, for images with channels last: its mask goes with the product."""
    torch.manual_seed(0)
    conv, linear = torch.nn.Conv2d(3, 32, 3), torch.nn.Linear(32 * 81, 10)
    parameters = [*conv.parameters(), *linear.parameters()]

    def step(x: torch.Tensor, mask: torch.Tensor) -> tuple:
        for p in parameters:
            p.grad = None
        y = F.max_pool2d(F.gelu(conv(x)), 2)
        loss = torch.sin(linear(torch.flatten(y, 1) * mask)).sum()
        loss.backward()
        return (loss.detach(), *(p.grad + 0 for p in parameters))

    compiled = torch.compile(step, mode="now", fullgraph=True)
    for _ in range(4):
        x, mask = torch.randn(16, 3, 20, 20), (torch.rand(16, 32 * 81) > 0.3).float()
        for a, b in zip(compiled(x, mask), step(x, mask), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)
    graph = compiled._programs[0].step.graph
    groups = Fusion(graph).groups
    turning = [node for group in groups for node in group.nodes
               if node.op is Op.APPLY and node.shape == (16, 9, 1, 9, 1, 32)]
    assert turning
    masked = [group for group in groups if group.contraction is not None
              and group.contraction.op is Op.MATMUL and group.shape == (16, 32 * 81)]
    assert len(masked) == 1
    assert len(masked[0].nodes) == 2
