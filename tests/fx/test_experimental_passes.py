"""Rewrites of graphs that libraries import: arguments in one form, folded norms, merged products,
shapes in traces, code on demand."""

import operator
import pickle
from typing import NamedTuple

import pytest
from flambeau import fx, nn
from flambeau.fx._lazy_graph_module import (
    _force_skip_lazy_graph_module, _LazyGraphModule, _make_graph_module, _use_lazy_graph_module,
)
from flambeau.fx.experimental import meta_tracer, optimization
from flambeau.fx.experimental.const_fold import split_const_subgraphs
from flambeau.fx.experimental.merge_matmul import merge_matmul
from flambeau.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from flambeau.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
from flambeau.fx.passes.graph_transform_observer import GraphTransformObserver
from flambeau.fx.passes.param_fetch import lift_lowering_attrs_to_nodes

import flambeau as torch


def named(gm, prefix):
    return next(node for node in gm.graph.nodes if node.name.startswith(prefix))


def test_arguments_by_name_with_their_defaults():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.MaxPool2d(2)

        def forward(self, x):
            return torch.nn.functional.dropout(self.pool(x), 0.3, False)

    x = torch.rand(1, 1, 4, 4)
    gm = fx.symbolic_trace(Net())
    normal = NormalizeArgs(gm).transform()
    assert named(normal, "dropout").args == ()
    assert list(named(normal, "dropout").kwargs) == ["input", "p", "training", "inplace"]
    assert list(named(normal, "pool").kwargs) == ["input"]
    assert torch.equal(normal(x), gm(x))


def test_functions_become_operators():
    gm = fx.symbolic_trace(lambda x, y: torch.div(x, y) + torch.add(x, y, alpha=2))
    targets = [n.target for n in NormalizeOperators(gm).transform().graph.nodes]
    assert operator.truediv in targets
    assert torch.div not in targets


def test_norms_fold_into_the_layers_before_them():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.Flatten(),
                        nn.Linear(8, 3), nn.BatchNorm1d(3)).eval()
    for layer in (net[1], net[5]):
        layer.running_mean.uniform_()
        layer.running_var.uniform_(0.5, 2)
    x = torch.rand(2, 1, 4, 4)
    fused = optimization.optimize_for_inference(net)
    kinds = [type(m) for m in fused.modules()]
    assert nn.BatchNorm2d not in kinds
    assert nn.BatchNorm1d not in kinds
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["0", "3", "4"]
    torch.testing.assert_close(fused(x), net(x))
    kept_in_place = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False))
    assert len(list(optimization.fuse(kept_in_place.eval()).graph.nodes)) == 4


def test_a_subgraph_is_a_module():
    gm = fx.symbolic_trace(lambda x: (x + 1).relu() * 2)
    source, added, relu = list(gm.graph.nodes)[:3]
    part = optimization.extract_subgraph(gm, [relu], [added], [relu])
    assert part(torch.tensor([-1.0, 2.0]))[0].tolist() == [0, 2]


def test_products_with_one_right_operand_are_one_product():
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.rand(3, 2))

        def forward(self, a, b):
            return torch.matmul(a, self.w).sum() + torch.matmul(b, self.w).sum()

    net, a, b = Products(), torch.rand(2, 3), torch.rand(4, 3)
    gm = merge_matmul(net)
    assert sum(n.target is torch.matmul for n in gm.graph.nodes) == 1
    torch.testing.assert_close(gm(a, b), net(a, b))
    dependent = merge_matmul(Dependent())
    assert sum(n.target is torch.matmul for n in dependent.graph.nodes) == 2


class Dependent(nn.Module):
    def forward(self, a, b):
        return torch.matmul(torch.matmul(a, b), b)


@pytest.mark.parametrize("rows", [15, 35])
def test_a_trace_with_shapes_follows_branches_on_them(rows):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm = nn.Embedding(42, 16), nn.LayerNorm(16)

        def forward(self, x):
            y = self.table(x)
            y = self.norm(y + torch.arange(y.shape[-1], dtype=torch.float, device=y.device))
            return torch.relu(y) if y.shape[0] < 30 and y.dim() == 2 else torch.sigmoid(y)

    net, x = Net(), torch.randint(42, (rows,))
    gm = meta_tracer.symbolic_trace(net, meta_args={"x": x.to("meta")})
    torch.testing.assert_close(gm(x), net(x))


def test_items_and_results_have_types():
    class Pair(NamedTuple):
        number: int
        x: torch.Tensor

    def f(pair, many, rows):
        return pair[0], pair[1], many[2], rows[1]

    gm = fx.symbolic_trace(f)
    sources = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for node, kind in zip(sources, (Pair, tuple[int, str, float], list[bytes]), strict=True):
        node.type = kind
    annotate_getitem_nodes(gm.graph)
    kinds = [n.type for n in gm.graph.nodes if n.target is operator.getitem]
    assert [str(kind.__name__ if isinstance(kind, type) else kind) for kind in kinds] == [
        "int", "Tensor", "float", "bytes"]
    annotated = AnnotateTypesWithSchema(fx.symbolic_trace(nn.Sequential(nn.ReLU()))).transform()
    assert named(annotated, "_0").type is torch.Tensor


def test_shapes_without_data_and_attributes_for_lowering():
    gm = fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()))
    assert FakeTensorProp(gm).propagate(torch.ones(1, 1, 5, 5)).shape == (1, 2, 3, 3)
    assert named(gm, "_1").meta["val"].shape == (1, 2, 3, 3)
    lift_lowering_attrs_to_nodes(gm)
    assert named(gm, "_0").attrs_for_lowering["kernel_size"] == (3, 3)


def test_an_observer_names_the_pass_of_each_new_node():
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)

    def swap(graph):
        node = named(gm, "relu")
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_function(torch.sigmoid, node.args))
        graph.erase_node(node)

    observer = GraphTransformObserver(gm, "swap")
    observer.apply_graph_pass(swap)
    assert observer.created_nodes == {"sigmoid"}
    assert observer.erased_nodes == {"relu"}
    (source,) = named(gm, "sigmoid").meta["from_node"]
    assert (source.name, source.pass_name) == ("relu", "swap")
    assert [a.name for a in source.action] == ["REPLACE", "CREATE"]
    gm.graph.call_function(torch.relu, ())  # after the pass
    assert observer.created_nodes == {"sigmoid"}


def test_code_on_demand():
    with _use_lazy_graph_module(True):
        gm = fx.symbolic_trace(lambda x: x.sin())
        again = fx.symbolic_trace(gm)
        with _force_skip_lazy_graph_module(), _use_lazy_graph_module(True):
            assert not isinstance(fx.symbolic_trace(lambda x: x), _LazyGraphModule)
        plain = _make_graph_module(gm, gm.graph, graph_module_cls=fx.GraphModule)
    assert isinstance(gm, _LazyGraphModule)
    assert not isinstance(plain, _LazyGraphModule)
    assert not gm._needs_recompile()  # the second trace ran it
    assert again._needs_recompile()
    x = torch.rand(2)
    assert torch.equal(pickle.loads(pickle.dumps(again))(x), x.sin())
    again.recompile()
    assert torch.equal(again(x), x.sin())
    named(again, "sin").target = "cos"
    again.recompile()
    assert again._needs_recompile()
    assert "cos" in again.code
    assert torch.equal(again(x), x.cos())
    assert not isinstance(fx.symbolic_trace(lambda x: x), _LazyGraphModule)


def test_folded_values_require_gradients_as_they_did_in_the_graph():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(2))
            self.b = nn.Parameter(torch.full((2,), 3.0), requires_grad=False)

        def forward(self, x):
            return x * (self.a + self.b) - self.b * 2

    net, x = Net(), torch.rand(2)
    folded = split_const_subgraphs(net)
    assert torch.equal(folded(x), net(x))
    parts = getattr(folded, folded.fx_const_folded_attrs_name)
    assert [part.requires_grad for part in parts] == [True, False]
