"""Parts of a graph: partitions by what a backend can run, submodules by tag, sizes, a drawing."""

import operator
import types

import pytest
from flambeau import fx
from flambeau.fx.passes.graph_drawer import FxGraphDrawer
from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes, replace_target_nodes_with
from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from flambeau.fx.passes.operator_support import (
    OperatorSupport, OpSupports, chain, create_op_support,
)
from flambeau.fx.passes.shape_prop import ShapeProp
from flambeau.fx.passes.split_utils import split_by_tags
from flambeau.fx.passes.tools_common import get_node_target, stable_topological_sort

import flambeau as torch
from flambeau import nn



def calls(*names):
    """A support of the nodes whose names begin so."""
    return create_op_support(lambda modules, node: node.name.startswith(names))


ADDS = calls("add")


def names(partitions):
    return [sorted(node.name for node in part.nodes) for part in partitions]


def test_a_value_that_leaves_a_partition_does_not_come_back():
    def f(a, b):
        x = a + b
        y = x.relu()  # x + y cannot be in one part with x
        return x + y, x + b

    gm = fx.symbolic_trace(f)
    partitioner = CapabilityBasedPartitioner(gm, ADDS, allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    assert names(parts) == [["add_1", "add_2"], ["add"]]
    a, b = torch.ones(2), torch.ones(2)
    expected = f(a, b)
    fused = partitioner.fuse_partitions(parts)
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["fused_1", "fused_0"]
    for x, y in zip(fused(a, b), expected, strict=True):
        assert torch.equal(x, y)


def test_partitions_depend_on_each_other_through_other_partitions():
    def f(a, c):
        b0, c0 = a + 1, a + 2
        x0, x1 = b0.relu(), c0.relu()
        return b0 + x1, x0 + c0

    parts = CapabilityBasedPartitioner(fx.symbolic_trace(f), ADDS, True).propose_partitions()
    assert names(parts) == [["add_2", "add_3"], ["add", "add_1"]]


def test_items_lie_with_their_tuple_and_reshapes_at_the_edge_go():
    def f(a):
        first, second = a.chunk(2)
        return (first + second).view(4) + 1

    takes = calls("add", "chunk", "getitem", "view")
    gm = fx.symbolic_trace(f)
    (part,) = CapabilityBasedPartitioner(gm, takes).propose_partitions()
    assert names([part]) == [["add", "add_1", "chunk", "getitem", "getitem_1", "view"]]
    view = fx.symbolic_trace(lambda a: torch.flatten(torch.flatten(a) + 1) + 2)
    edges = CapabilityBasedPartitioner(view, calls("add", "flatten"),
                                       non_compute_ops=["torch.flatten"])
    parts = edges.propose_partitions()
    edges.remove_bookend_non_compute_ops(parts)
    assert names(parts) == [["add", "add_1", "flatten_1"]]


def test_support_by_dtype():
    gm = fx.symbolic_trace(lambda x: torch.relu(x))
    ShapeProp(gm).propagate(torch.ones(2, dtype=torch.float64))
    node = list(gm.graph.nodes)[1]
    for dtype, expected in ((torch.float64, True), (torch.float32, False)):
        support = OperatorSupport({"torch.relu": (((dtype,),), {})})
        assert support.is_node_supported({}, node) is expected
    declined = chain(support, OpSupports.decline_if_input_dtype(torch.float64))
    assert not declined.is_node_supported({}, node)


def test_submodules_by_tag():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x):
            h = self.a(x)
            return self.b(h) * self.scale, h

    net = Net()
    gm = fx.symbolic_trace(net)
    for node in gm.graph.nodes:
        node.tag = "head" if node.name == "a" else "tail"
    split, paths = split_by_tags(gm, ["head", "tail"], return_fqn_mapping=True)
    assert paths == {"a": "head.a", "b": "tail.b", "scale": "tail.scale"}
    x = torch.ones(1, 2)
    for actual, wanted in zip(split(x), net(x), strict=True):
        assert torch.equal(actual, wanted)
    with pytest.raises(AssertionError, match="order must be >= max of its upstream"):
        split_by_tags(gm, ["tail", "head"])


def test_what_nodes_call_and_how_large_their_results_are():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    modules = dict(gm.named_modules())
    called = [get_node_target(modules, n) for n in gm.graph.nodes if n.op == "call_module"]
    assert called == ["torch.nn.modules.linear.Linear", "torch.nn.modules.activation.ReLU"]
    get_size_of_all_nodes(gm, [torch.ones(4, 2)])
    sizes = [tuple(n.size_bytes) for n in gm.graph.nodes if n.op != "output"]
    assert sizes == [(32, 32), (48, 48 + 36), (48, 48)]
    plus = fx.symbolic_trace(lambda x: x + 1)
    replace_target_nodes_with(plus, "call_function", operator.add, "call_function", operator.sub)
    assert plus(3) == 2


def test_a_stable_sort_moves_only_what_it_must():
    gm = fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    first, second = (n for n in gm.graph.nodes if n.target is operator.add)
    second.append(first)
    order = [n.name for n in stable_topological_sort(gm).graph.nodes]
    assert order == ["x", "add_1", "add", "mul", "output"]


def test_a_drawing_has_a_box_for_each_node(monkeypatch):
    class Shape:
        def __init__(self, *names, **style):
            self.names, self.style, self.parts = names, style, []
            self.add_node = self.add_edge = self.parts.append

    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "pydot", None)
        with pytest.raises(RuntimeError, match="requires the pydot package"):
            FxGraphDrawer(fx.symbolic_trace(nn.ReLU()), "net")
    fake = types.SimpleNamespace(Dot=Shape, Node=Shape, Edge=Shape)
    monkeypatch.setitem(__import__("sys").modules, "pydot", fake)
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3)))
    ShapeProp(gm).propagate(torch.ones(4, 2))
    parts = FxGraphDrawer(gm, "net").get_dot_graph().parts
    labels = {p.names[0]: p.style["label"] for p in parts if "label" in p.style}
    assert set(labels) == {"input_1", "_0", "_0.weight", "_0.bias", "output"}
    assert r"shape=(4, 3)\n" in labels["_0"] and "torch.nn.modules.linear.Linear" in labels["_0"]
    assert ("_0", "output") in [p.names for p in parts]
