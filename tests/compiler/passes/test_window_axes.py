"""What follows the gradient of a pool is one kernel with it."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import Node, apply, cast, constant, expand, reduce, reshape
from flambeau.compiler.passes.window_axes import preserve_window_axes
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from ..random_graphs import graph_of, source, values
from ..driver.test_pipeline import assert_same, check, outcome

F32 = Type.F32
FINE, COARSE = (3, 4, 2, 5, 2, 7), (3, 8, 10, 7)


def spread(g: Node, places: Node) -> Node:
    """One number a window at the places that are greater than it."""
    over = reshape(g, (3, 4, 1, 5, 1, 7))
    result = apply(Scalar.WHERE, apply(Scalar.GT, places, over), over, constant(0.0, F32, (1,) * 6))
    return reshape(result, COARSE)


@pytest.mark.parametrize("fold", [ReduceOp.SUM, ReduceOp.MAXIMUM])
def test_work_on_spread_values_is_one_kernel(fold: ReduceOp) -> None:
    """Beside an array of the merged shape, one stretched over it, and a number."""
    shapes = ((3, 4, 5, 7), FINE, COARSE, (7,))
    g, places, y, bias = (source(i, shape) for i, shape in enumerate(shapes))
    wide = reshape(bias, (1, 1, 1, 7))
    back = apply(Scalar.WHERE, apply(Scalar.GT, y, wide), spread(g, places), constant(0.5, F32))
    outputs = [apply(Scalar.NEG, back), reduce(back, fold, (1, 2))]
    graph = graph_of([g, places, y, bias], outputs)
    result = preserve_window_axes(graph)
    inputs = values(graph, 0)
    assert_same(outcome(result, inputs), outcome(graph, inputs))
    assert len(check(graph).tasks) == 1


def test_positions_and_other_merges_stay_as_they_are() -> None:
    g, places, x = source(0, (3, 4, 5, 7)), source(1, FINE), source(2, FINE)
    back = spread(g, places)
    plain = apply(Scalar.EXP, reshape(apply(Scalar.ADD, x, places), COARSE))
    stretched = expand(reshape(reduce(x, ReduceOp.SUM, (4,)), (3, 8, 5, 7)), (3, 8, 5, 7))
    outputs = [reduce(back, ReduceOp.ARGMAX, (3,)), plain, apply(Scalar.NEG, stretched)]
    graph = graph_of([g, places, x], [*outputs, cast(back, Type.F64)])
    step = check(graph)
    assert step.graph.outputs[1].shape == COARSE


@pytest.mark.parametrize("size", [(8, 8), (9, 7), (1, 2)])
@pytest.mark.parametrize("kernel", [2, (1, 2)])
def test_pools_with_what_comes_before_them(size: tuple[int, int], kernel: int) -> None:
    if size == (1, 2) and kernel == 2:
        size = (2, 2)
    torch.manual_seed(0)
    weight = torch.randn(5, 3, 3, 3, requires_grad=True)
    bias = torch.randn(5, requires_grad=True)

    def step(x: torch.Tensor) -> tuple:
        weight.grad = bias.grad = None
        y = F.max_pool2d(F.relu(F.conv2d(x, weight, bias, padding=1)), kernel)
        loss = (y * y).sum()
        loss.backward()
        return loss.detach(), weight.grad + 0, bias.grad + 0

    compiled = torch.compile(step, mode="now", fullgraph=True)
    for _ in range(5):
        x = torch.randn(2, 3, *size)
        for a, b in zip(compiled(x), step(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
