"""Products of rows that a table repeats are products of the table, forward and backward."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.compiler.ir.graph import (
    Graph, Node, Op, Source, SourceKind, matmul, permute, reduce, reshape,
)
from flambeau.compiler.passes.matmul_of_gather import move_matmul_before_gather
from flambeau.compiler.passes.cse import eliminate_common_subexpressions
from flambeau.compiler.passes.simplify import simplify
from flambeau.compiler.ir.verify import verify_graph
from flambeau.native.loop_ir.ir import ReduceOp, Type

from ..execution_routes import assert_same, outcome, run
from ..step_comparison import same


def letters(rows: int, turned: bool) -> Graph:
    """What a layer behind an embedding computes: sums, and the gradients of table, weight, bias."""
    shapes = [(rows, 16), (8, 5), (16, 24), (40, 24)]
    types = [Type.F32, Type.I64, Type.F32, Type.F32]
    inputs = [Node(Op.INPUT, (), shape, type, {"slot": k})
              for k, (shape, type) in enumerate(zip(shapes, types, strict=True))]
    sources = [Source(SourceKind.STATE, n.shape, n.type, lambda: None) for n in inputs]
    table, index, w, g = inputs
    x = Node(Op.TAKE, (table, index), (8, 5, 16), Type.F32)
    x = permute(x, (1, 0, 2)) if turned else x
    x = reshape(x, (40, 16))
    y = matmul(x, w)
    dw = matmul(permute(x, (1, 0)), g)
    dx = matmul(g, permute(w, (1, 0)))
    dx = permute(reshape(dx, (5, 8, 16)), (1, 0, 2)) if turned else dx
    flat = reshape(index, (40,))
    table_g = Node(Op.ADD_ROWS, (flat, reshape(dx, (40, 16))), table.shape, Type.F32)
    other = matmul(permute(g, (1, 0)), x)
    return Graph(sources, inputs, [y, dw, table_g, other, reduce(g, ReduceOp.SUM, (0,))], [])


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_computed(turned: bool) -> None:
    graph = letters(7, turned)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=s.shape).astype(np.float32) for s in graph.sources]
    inputs[1] = random.integers(0, 7, (8, 5))
    expected = outcome(graph, inputs)
    better = eliminate_common_subexpressions(simplify(move_matmul_before_gather(graph)))
    verify_graph(better)
    assert_same(outcome(better, inputs), expected)
    assert_same(run(graph, inputs)[1], expected)
    products = [n for n in better.nodes() if n.op is Op.MATMUL]
    assert all(7 in (*n.inputs[0].shape, *n.inputs[1].shape, *n.shape) for n in products)
    assert Counter(n.op for n in better.nodes())[Op.ADD_ROWS] == 1, "rows are added up once"
    (total,) = (n for n in better.nodes() if n.op is Op.REDUCE)
    assert total.inputs[0].op is Op.ADD_ROWS


def test_large_tables_are_left_alone() -> None:
    graph = letters(11, True)
    assert [n.op for n in move_matmul_before_gather(graph).nodes()] == [n.op for n in graph.nodes()]


def test_as_eager() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(5, 32), torch.nn.Linear(32, 8))

    def step(x: torch.Tensor, y: torch.Tensor) -> tuple:
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        return loss.detach(), torch.autograd.grad(loss, list(net.parameters()))

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        x, y = torch.randint(5, (6, 9)), torch.randint(8, (6, 9))
        same(fast(x, y), step(x, y), 1e-5)
    assert fast._programs
