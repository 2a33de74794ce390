"""torch.fx: what traces record, what graphs print, and how they are changed and copied."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau import fx, nn


class Net(nn.Module):
    """Layers, a parameter, a buffer, functions, methods and a shape."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.scale = nn.Parameter(torch.ones(5))
        self.register_buffer("shift", torch.ones(5))

    def forward(self, x):
        y = torch.relu(self.linear(x)) * self.scale
        y = self.shift + y
        z = nn.functional.gelu(y).sum(dim=-1, keepdim=True)
        return torch.cat([y, z], dim=1), x.shape[0]


CODE = """
def forward(self, x):
    linear = self.linear(x)
    relu = torch.relu(linear);  linear = None
    scale = self.scale
    mul = relu * scale;  relu = scale = None
    shift = self.shift
    add = shift.add(mul);  shift = mul = None
    gelu = torch._C._nn.gelu(add)
    sum_1 = gelu.sum(dim = -1, keepdim = True);  gelu = None
    cat = torch.cat([add, sum_1], dim = 1);  add = sum_1 = None
    getattr_1 = x.shape;  x = None
    getitem = getattr_1[0];  getattr_1 = None
    return (cat, getitem)
"""


def test_a_module_becomes_code_that_computes_the_same():
    net, x = Net(), torch.randn(3, 4)
    gm = fx.symbolic_trace(net)
    assert gm.code.strip() == CODE.strip()
    assert torch.equal(gm(x)[0], net(x)[0])
    assert gm(x)[1] == 3
    gm.graph.lint()
    assert [n.op for n in gm.graph.nodes][:3] == ["placeholder", "call_module", "call_function"]
    assert str(gm.graph).splitlines()[2] == \
        "    %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})"
    assert gm.state_dict().keys() == net.state_dict().keys()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_a_graph_of_their_own(copied):
    gm = fx.symbolic_trace(Net())
    other = copied(gm)
    assert other.code == gm.code
    x = torch.randn(2, 4)
    assert torch.equal(other(x)[0], gm(x)[0])
    other.graph.find_nodes(op="call_function", target=torch.relu)[0].target = torch.sigmoid
    other.recompile()
    assert not torch.equal(other(x)[0], gm(x)[0])


def test_functions_of_nn_functional_list_all_their_arguments():
    gm = fx.symbolic_trace(lambda x: nn.functional.softmax(nn.functional.max_pool2d(x, 3), 1))
    assert "max_pool2d(x, 3, stride = None, padding = 0, dilation = 1, ceil_mode = False, " \
           "return_indices = False)" in gm.code
    assert "softmax(max_pool2d, dim = 1, _stacklevel = 3, dtype = None)" in gm.code
    x = torch.randn(1, 2, 6, 6)
    assert torch.equal(gm(x), nn.functional.softmax(nn.functional.max_pool2d(x, 3), 1))


def test_proxies_outside_of_a_trace_and_overloads_are_recorded():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    graph.output(torch.ops.aten.add.Tensor(nn.functional.leaky_relu(x), 1).node)
    gm = fx.GraphModule({}, graph)
    assert "torch.nn.functional.leaky_relu(x, negative_slope = 0.01, inplace = False)" in gm.code
    assert "torch.ops.aten.add.Tensor(leaky_relu, 1)" in gm.code
    assert gm(-torch.ones(1)).item() == pytest.approx(0.99)


def test_to_folder_writes_a_package(tmp_path):
    gm = fx.symbolic_trace(Net())
    gm.to_folder(tmp_path / "saved", "Saved")
    x = torch.ones(2, 4)
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import flambeau as torch\n"
               "from saved import Saved; print(Saved()(torch.ones(2, 4))[0].sum().item())")
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True,
                         text=True, check=True)
    assert float(run.stdout) == pytest.approx(gm(x)[0].sum().item())


def test_control_flow_names_the_line_and_the_fix():
    def branch(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(fx.proxy.TraceError, match="cannot be used as inputs") as caught:
        fx.symbolic_trace(branch)
    place, fix = caught.value.__notes__
    assert "test_graphs.py" in place
    assert place.endswith("if x.sum() > 0:")
    assert "concrete_args" in fix
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [y + 1 for y in x])
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        fx.symbolic_trace(lambda x: len(x))


def test_concrete_arguments_decide_branches_and_flatten_containers():
    def f(x, flag, parts):
        y = x + parts["a"] if flag else x
        return {"out": y}

    gm = fx.symbolic_trace(f, concrete_args={"flag": True, "parts": {"a": fx.PH}})
    assert "fx_pytree.tree_flatten_spec([x, flag, parts], self._in_spec)" in gm.code
    assert gm(torch.ones(1), True, {"a": torch.ones(1)})["out"].item() == 2
    with pytest.raises(AssertionError, match="specialized to have value True"):
        gm(torch.ones(1), False, {"a": torch.ones(1)})


def plain_sqrt(x):
    return math.sqrt(x.shape[0])


def leaf(x):
    return x if float(x.sum()) > 0 else -x


fx.wrap("leaf")


def test_leaf_functions_are_recorded():
    gm = fx.symbolic_trace(plain_sqrt)
    assert gm(torch.ones(4)) == 2.0
    gm = fx.symbolic_trace(lambda x: leaf(x) + 1)
    assert [n.name for n in gm.graph.nodes] == ["x", "leaf", "add", "output"]
    assert gm(-torch.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("inner")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def test_patterns_are_replaced_where_they_occur():
    gm = fx.symbolic_trace(lambda x, w: torch.relu(x @ w) + torch.relu(w @ x))
    matches = fx.replace_pattern(gm, lambda a, b: torch.relu(a @ b), lambda a, b: torch.tanh(b) - a)
    assert len(matches) == 2
    assert not gm.graph.find_nodes(op="call_function", target=torch.relu)
    x = torch.randn(3, 3)
    assert torch.allclose(gm(x, x), 2 * (torch.tanh(x) - x))


def test_graphs_are_edited():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    dead = graph.call_method("neg", (x,))
    graph.output(y)
    with graph.inserting_before(y):
        z = graph.call_function(operator.add, (x, 1))
    y.replace_input_with(x, z)
    assert list(x.users) == [dead, z]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(y)
    gm = fx.GraphModule({}, graph)
    assert graph.eliminate_dead_code()
    gm.recompile()
    assert gm(-3 * torch.ones(1)).item() == 0
    assert z < y
    with pytest.raises(TypeError, match="does not support mutation"):
        graph.call_function(torch.cat, ([x, y],)).args[0].append(x)


def test_interpreters_and_transformers_see_every_node():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            new = torch.tanh if target is torch.relu else target
            return super().call_function(new, args, kwargs)

    gm = fx.symbolic_trace(Net())
    x = torch.randn(2, 4)
    assert torch.equal(fx.Interpreter(gm).run(x)[0], gm(x)[0])
    swapped = Swap(gm).transform()
    assert "torch.tanh(linear)" in swapped.code
    with pytest.raises(RuntimeError, match="(?s)While executing %linear .*Original traceback"):
        fx.Interpreter(gm).run(torch.ones(2, 3))


def test_a_trace_leaves_nothing_behind():
    before = torch.Tensor.add, nn.Module.__call__, torch.relu.__code__
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: bool(x))
    assert (torch.Tensor.add, nn.Module.__call__, torch.relu.__code__) == before


def test_names_in_graphs_lead_to_the_functions():
    from flambeau.fx.qualified_names import index_public_names

    wrong = []
    for function, path in index_public_names().items():
        value = torch
        try:
            for part in path.split(".")[1:]:
                value = getattr(value, part)
        except AttributeError:
            value = None
        if not isinstance(function, type) and value is not function:
            wrong.append(path)
    assert wrong == []


def test_operators_of_aten_are_recorded_as_themselves():
    aten = torch.ops.aten
    module = fx.symbolic_trace(lambda x: aten.permute(aten.view(x, [3, 2]), [1, 0]))
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    assert targets == [aten.view, aten.permute]
    x = torch.arange(6.0)
    assert torch.equal(module(x), x.view(3, 2).t())


def test_einsum_hands_over_each_operand(torch):
    for pack in (tuple, list):
        traced = torch.fx.symbolic_trace(lambda x, y: torch.einsum("ij,jk", pack([x, y])))  # noqa: B023
        node = next(n for n in traced.graph.nodes if n.op == "call_function")
        assert [str(a) for a in node.args] == ["ij,jk", "x", "y"]
        assert torch.equal(traced(torch.ones(2, 3), torch.ones(3, 2)), torch.full((2, 2), 3.0))
