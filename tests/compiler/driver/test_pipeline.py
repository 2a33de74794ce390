"""Graphs compute the same after every pass, as loops, and as machine code."""

from __future__ import annotations


import numpy as np
import pytest

from flambeau.compiler.driver import pipeline
from flambeau.compiler.ir.graph import (
    Node, Op, apply, constant, matmul, permute, reduce, reshape, strided_slice,
)
from flambeau.compiler.ir.verify import GraphError, verify_graph
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from ..execution_routes import assert_same, check, outcome, run
from ..random_graphs import graph_of, random_graph, source, values

NUMBER = Type.F32


@pytest.mark.parametrize("seed", range(60))
def test_passes_keep_what_a_graph_computes(seed: int) -> None:
    graph = random_graph(seed)
    sources = values(graph, seed)
    expected = outcome(graph, sources)
    for apply_pass in pipeline.PASSES:
        graph = apply_pass(graph)
        verify_graph(graph)
        assert_same(outcome(graph, sources), expected)


@pytest.mark.parametrize("seed", range(60))
def test_programs_compute_what_graphs_do(seed: int) -> None:
    graph = random_graph(seed)
    sources = values(graph, seed)
    _, actual = run(graph, sources, threads=1 + seed % 2)
    assert_same(actual, outcome(graph, sources))


def test_softmax_is_one_kernel() -> None:
    x = source(0, (5, 70))
    weights = apply(Scalar.EXP, apply(Scalar.SUB, x, reduce(x, ReduceOp.MAXIMUM, (1,))))
    step = check(graph_of([x], [apply(Scalar.DIV, weights, reduce(weights, ReduceOp.SUM, (1,)))]))
    assert len(step.tasks) == 1


def layer_norm(x: Node, extent: int) -> Node:
    scale = constant(1 / extent, NUMBER)
    mean = apply(Scalar.MUL, reduce(x, ReduceOp.SUM, (1,)), scale)
    apart = apply(Scalar.SUB, x, mean)
    variance = apply(Scalar.MUL, reduce(apply(Scalar.MUL, apart, apart), ReduceOp.SUM, (1,)), scale)
    return apply(Scalar.DIV, apart, apply(Scalar.SQRT, variance))


def test_residual_and_layer_norm_are_one_kernel() -> None:
    x, y = source(0, (6, 40)), source(1, (6, 40))
    total = apply(Scalar.ADD, x, y)
    step = check(graph_of([x, y], [total, layer_norm(total, 40)]))
    assert len(step.tasks) == 1


def test_bias_and_activation_are_a_product_s_epilogue() -> None:
    x, w, b = source(0, (9, 20)), source(1, (33, 20)), source(2, (33,))
    y = apply(Scalar.ADD, matmul(x, permute(w, (1, 0))), b)
    y = apply(Scalar.MAXIMUM, y, constant(0.0, NUMBER))
    step = check(graph_of([x, w, b], [reshape(y, (3, 3, 33))]))
    assert len(step.tasks) == 1


def test_a_gradient_and_its_update_are_one_kernel() -> None:
    x, g, w, m = source(0, (32, 7)), source(1, (32, 5)), source(2, (5, 7)), source(3, (5, 7))
    grad = matmul(permute(g, (1, 0)), x)
    mean = apply(Scalar.ADD, apply(Scalar.MUL, m, constant(0.9, NUMBER)), grad)
    new = apply(Scalar.SUB, w, apply(Scalar.MUL, mean, constant(0.1, NUMBER)))
    step = check(graph_of([x, g, w, m], [], [(2, new), (3, mean)]))
    assert len(step.tasks) == 1


def test_all_of_an_update_reads_a_convolution_s_gradient_in_the_weight_s_order() -> None:
    """Squares too: the gradient, its copy in that order, and one kernel of the update."""
    shapes = ((1, 8, 8, 32), (1, 6, 6, 64), *((64, 32, 3, 3),) * 3)
    x, g, w, m, v = (source(i, shape) for i, shape in enumerate(shapes))
    node = Node(Op.CONV_WEIGHT, (x, g), (3, 3, 32, 64), NUMBER,
                {"stride": (1, 1), "dilation": (1, 1), "groups": 1})
    grad = permute(node, (3, 2, 0, 1))
    mean = apply(Scalar.ADD, apply(Scalar.MUL, m, constant(0.9, NUMBER)), grad)
    squares = apply(Scalar.ADD, apply(Scalar.ABS, v), apply(Scalar.MUL, grad, grad))
    new = apply(Scalar.SUB, w, apply(Scalar.DIV, mean, apply(Scalar.SQRT, squares)))
    step = check(graph_of([x, g, w, m, v], [grad], [(2, new), (3, mean), (4, squares)]))
    assert len(step.tasks) == 3


def test_states_that_change_places() -> None:
    a, b = source(0, (4,)), source(1, (4,))
    check(graph_of([a, b], [a], [(0, b), (1, a)]))


def test_parts_are_computed_in_their_place() -> None:
    x = source(0, (3, 4))
    parts = (apply(Scalar.EXP, x), apply(Scalar.NEG, x))
    joined = Node(Op.CONCAT, parts, (3, 8), NUMBER, {"axis": 1})
    step = check(graph_of([x], [joined]))
    assert all(task.name != "copy" for task in step.tasks)


def test_attention_reads_heads_where_they_lie() -> None:
    batch, time, heads, width = 2, 5, 3, 4
    qkv = source(0, (batch, time, 3, heads, width))
    moved = permute(qkv, (2, 0, 3, 1, 4))
    shape = (batch, heads, time, width)
    q, k, v = (
        reshape(strided_slice(moved, (i, 0, 0, 0, 0), (1,) * 5, (1, *shape)), shape)
        for i in range(3)
    )
    scores = matmul(q, permute(k, (0, 1, 3, 2)))
    weights = apply(Scalar.EXP, apply(Scalar.SUB, scores, reduce(scores, ReduceOp.MAXIMUM, (3,))))
    weights = apply(Scalar.DIV, weights, reduce(weights, ReduceOp.SUM, (3,)))
    mixed = reshape(permute(matmul(weights, v), (0, 2, 1, 3)), (batch, time, heads * width))
    step = check(graph_of([qkv], [mixed]))
    assert [task.name for task in step.tasks].count("matmul") == 2
    assert len(step.tasks) == 3


def test_an_eager_call_splits_the_program() -> None:
    x = source(0, (3, 4))
    doubled = apply(Scalar.ADD, x, x)
    called = Node(Op.CALL, (doubled,), (3, 4), NUMBER,
                  {"function": lambda a: np.sort(a, 1), "output": 0, "group": "sort"})
    step = check(graph_of([x], [apply(Scalar.NEG, called)]))
    assert len(step.parts) == 3


def test_illegal_graphs_are_refused() -> None:
    x = source(0, (3, 4))
    for wrong in (
        Node(Op.RESHAPE, (x,), (5,), NUMBER),
        Node(Op.PERMUTE, (x,), (3, 4), NUMBER, {"axes": (1, 0)}),
        Node(Op.SLICE, (x,), (3, 4), NUMBER, {"starts": (1, 0), "steps": (1, 1)}),
        Node(Op.APPLY, (x, x), (3, 4), Type.F64, {"operation": Scalar.ADD}),
        Node(Op.REDUCE, (x,), (3,), NUMBER, {"fold": ReduceOp.SUM, "axes": (1,)}),
    ):
        with pytest.raises(GraphError, match=wrong.op.name):
            verify_graph(graph_of([x], [wrong]))


@pytest.mark.parametrize(("rows", "copies"), [(32, 1), (4, 0)])
def test_a_weight_that_many_products_transpose_is_written_out_once(rows: int, copies: int) -> None:
    w, x = source(0, (40, 40)), source(1, (rows, 40))
    turned, y = permute(w, (1, 0)), x
    for _ in range(5):
        y = apply(Scalar.TANH, matmul(y, turned))
    step = check(graph_of([w, x], [y]))
    assert [t.name for t in step.tasks if t.name != "matmul"] == ["permute"] * copies
