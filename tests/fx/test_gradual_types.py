"""Shapes with unknown sizes: checked through a graph, and which of them are equal."""

import pytest
from flambeau import fx
from flambeau.fx.experimental.graph_gradual_typechecker import (
    GraphTypeChecker, Refine, broadcast_types,
)
from flambeau.fx.experimental.refinement_types import Equality
from flambeau.fx.experimental.rewriter import RewritingTracer
from flambeau.fx.experimental.unification import unify, var
from flambeau.fx.experimental.unify_refinements import infer_symbolic_types
from flambeau.fx.tensor_type import Dyn, TensorType

import flambeau as torch
from flambeau import nn


def checked(module, *inputs):
    gm = fx.symbolic_trace(module)
    for node, kind in zip(gm.graph.nodes, inputs, strict=False):
        node.type = kind
    GraphTypeChecker({}, gm).type_check()
    return gm


def test_layers_and_functions():
    net = nn.Sequential(nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2, 2),
                        nn.AdaptiveAvgPool2d((6, 7)))
    gm = checked(net, TensorType((4, 3, 32, Dyn)))
    kinds = [n.type for n in gm.graph.nodes]
    assert kinds[1:5] == [TensorType((4, 6, 28, Dyn))] * 3 + [TensorType((4, 6, 14, Dyn))]
    assert kinds[-1] == TensorType((4, 6, 6, 7))
    gm = checked(lambda x: torch.flatten(torch.transpose(x, 0, 1), 1, 2),
                 TensorType((1, 2, 3, Dyn)))
    assert gm.graph.output_node().type == TensorType((2, 3, Dyn))
    with pytest.raises(TypeError, match="Cannot reshape in node"):
        checked(lambda x: torch.reshape(x, [1, 2, -1]), TensorType((1, 5)))
    with pytest.raises(TypeError, match="Inconsistent 3 and 4"):
        checked(nn.Sequential(nn.Linear(3, 2)), TensorType((1, 4)))


def test_broadcasting():
    assert broadcast_types(TensorType((1, 2, 3, Dyn)), TensorType((2, 3, 4))) == (
        TensorType((1, 2, 3, Dyn)), TensorType((1, 2, 3, 4)))
    gm = checked(lambda x, y: x + y, TensorType((1, 2, 3, Dyn)), TensorType((2, 3, 4)))
    assert gm.graph.output_node().type == TensorType((1, 2, 3, Dyn))
    with pytest.raises(TypeError, match="Types should match"):
        checked(lambda x, y: x + y, TensorType((2, 3)), TensorType((2, 4)))


def test_unknown_sizes_that_have_to_be_equal():
    refine = Refine(checked(nn.Sequential(nn.Linear(3, 2)), TensorType((Dyn, 3))))
    refine.refine()
    assert refine.constraints == [Equality(var(0), var(1))]
    gm = checked(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), TensorType((Dyn, 3)))
    pytest.importorskip("sympy")
    infer_symbolic_types(gm)
    batches = {n.type.dims[0] for n in gm.graph.nodes}
    assert len(batches) == 1 and Dyn not in batches


def test_annotations_in_a_rewritten_forward_are_types():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x: TensorType((2, 2, 5, 4))):
            return self.norm(x)

    tracer = RewritingTracer()
    graph = tracer.trace(Net())
    gm = fx.GraphModule(tracer.root, graph)
    assert next(iter(graph.nodes)).type == TensorType((2, 2, 5, 4))
    assert GraphTypeChecker({}, gm).type_check()


def test_unification():
    a, b = var("a"), var("b")
    assert unify((a, (b, 2)), (b, (1, 2))) == {a: b, b: 1}
    assert unify((a, a), (1, 2)) is False
