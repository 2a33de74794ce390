"""The splitter for accelerators and the search for nodes that differ, beside PyTorch's."""

import contextlib
import importlib
import io
import operator

import pytest

import flambeau


def passes(torch, name):
    return importlib.import_module(f"{torch.__name__}.fx.passes.{name}")


def branches(torch):
    def f(x, y):
        a = torch.sin(x)
        b = torch.cos(x) + y
        n = x.size(0)
        c = torch.relu(a + b).view(n, -1)
        d = torch.sin(c) * 2
        return d, torch.relu(y)

    return torch.fx.symbolic_trace(f), [torch.ones(2, 3), torch.ones(2, 3)]


def split(torch, supported, **settings):
    base, support = passes(torch, "splitter_base"), passes(torch, "operator_support")
    gm, inputs = branches(torch)
    accepts = support.create_op_support(lambda modules, node: node.name.startswith(supported))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        splitter = base._SplitterBase(gm, inputs, accepts, base._SplitterSettingBase(**settings))
        result = splitter.generate_split_results()
    code = {name: part.code.replace("flambeau", "torch")
            for name, part in result.split_module.named_modules()}
    for ours, theirs in zip(result.split_module(*inputs), gm(*inputs), strict=True):
        assert torch.equal(ours, theirs)
    return {"placed": splitter.get_node_submodule_map(), "printed": printed.getvalue(),
            "inputs": {name: [tuple(x.shape) if hasattr(x, "shape") else x for x in values]
                       for name, values in result.submodule_inputs.items()}}, code


@pytest.mark.parity
@pytest.mark.parametrize("supported", [("sin", "cos"), ("relu", "add"), ("view",), (),
                                       ("size", "view"), ("size", "sin", "mul")])
@pytest.mark.parametrize("settings", [{}, {"min_acc_module_size": 2}, {"allow_non_tensor": True},
                                      {"skip_fusion": True}])
def test_nodes_go_where_pytorch_puts_them(supported, settings):
    import torch

    ours, theirs = split(flambeau, supported, **settings)[0], split(torch, supported, **settings)[0]
    assert ours == theirs


def test_a_split_module_computes_the_same_and_alternates():
    placed, code = split(flambeau, ("sin", "cos"))
    assert set(placed["placed"].values()) == {"_run_on_cpu_0", "_run_on_acc_1", "_run_on_cpu_2",
                                              "_run_on_acc_3", "_run_on_cpu_4"}
    assert "torch.sin" in code["_run_on_acc_1"]
    with pytest.raises(ValueError, match="max_acc_splits"):
        split(flambeau, ("sin",), max_acc_splits=1)


def test_groups_stay_together_when_values_return():
    """x.size(0) and the view that takes it are one group, and so is what lies between."""
    tools, shape_prop = passes(flambeau, "tools_common"), passes(flambeau, "shape_prop")

    def f(x):
        n = x.size(0)
        y = flambeau.full((n,), 1.0) + x.sum(1)
        return y.view(n, 1) + n

    gm = flambeau.fx.symbolic_trace(f)
    shape_prop.ShapeProp(gm).propagate(flambeau.ones(2, 3))
    calls = {n for n in gm.graph.nodes if n.op.startswith("call")}
    groups = tools.FxNetAccFusionsFinder(gm, calls)()
    assert {n.name for n in groups[next(n for n in calls if n.name == "size")]} == {
        "size", "full", "add", "view", "add_1"}
    assert calls - groups.keys() == {n for n in calls if n.name == "sum_1"}


def test_non_tensors_move_over_the_edge():
    def f(x):
        return flambeau.relu(x).view(x.size(0) + 1 - 1, -1)

    utils, base = passes(flambeau, "split_utils"), passes(flambeau, "splitter_base")
    gm = flambeau.fx.symbolic_trace(f)
    passes(flambeau, "shape_prop").ShapeProp(gm).propagate(flambeau.ones(2, 3))
    by_name = {n.name: n for n in gm.graph.nodes}
    first = base.Subgraph(True, [by_name["relu"], by_name["size"], by_name["add"]])
    second = base.Subgraph(True, [by_name["sub"], by_name["view"]])
    with contextlib.redirect_stdout(io.StringIO()):
        utils.move_non_tensor_nodes_on_boundary([first, second])
    assert [n.name for n in first.nodes] == ["relu"]
    assert {n.name for n in second.nodes} == {"sub", "view", "add", "size"}


def searched(torch, wrong, method, **settings):
    """What a minimizer finds whose second way adds 1 to the results of some operators."""
    base = passes(torch, "net_min_base")

    class Minimizer(base._MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            class Wrong(torch.fx.Interpreter):
                def run_node(self, node):
                    is_wrong = node.name in wrong and node.op != "placeholder"
                    return super().run_node(node) + is_wrong

            return Wrong(mod).run(*inputs)

    gm = torch.fx.symbolic_trace(lambda x: x.sin().cos().exp().neg().tanh().sin())
    options = base._MinimizerSettingBase(traverse_method=method, **settings)
    minimizer = Minimizer(gm, (torch.ones(3),),
                          lambda a, b, names: (0.0, torch.allclose(a, b)), options)
    with contextlib.redirect_stdout(io.StringIO()):
        culprits = minimizer.minimize(skip_nodes=["exp"])
    return {node.name for node in culprits}


@pytest.mark.parity
@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "skip", "defined",
                                    "block"])
@pytest.mark.parametrize("wrong", [("neg",), ("cos", "tanh"), ("exp",), ("sin_1",), ()])
def test_the_search_finds_what_pytorch_finds(method, wrong):
    import torch

    assert searched(flambeau, wrong, method) == searched(torch, wrong, method)


def test_the_search_finds_every_node():
    assert searched(flambeau, ("sin", "neg"), "sequential", find_all=True) == {"sin", "neg"}
    assert searched(flambeau, ("sin", "neg"), "binary", find_all=True) == {"sin", "neg"}
    with pytest.raises(RuntimeError, match="Unknown traverse method random"):
        searched(flambeau, (), "random")


@pytest.mark.parity
def test_reports_of_a_splitter():
    import torch

    def reports(torch):
        base, support = passes(torch, "splitter_base"), passes(torch, "operator_support")
        gm, inputs = branches(torch)
        accepts = support.create_op_support(lambda modules, node: node.target is operator.add)
        with contextlib.redirect_stdout(io.StringIO()):
            splitter = base._SplitterBase(gm, inputs, accepts, base._SplitterSettingBase())
            return splitter.split_preview(), splitter.node_support_preview()

    for ours, theirs in zip(reports(flambeau), reports(torch), strict=True):
        assert ours == theirs
