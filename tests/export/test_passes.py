"""torch._export: the verifier, passes over programs, and reports of what can be exported."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._export.node_lists import node_inline_, sequential_split
from flambeau._export.pass_base import _ExportPassBaseDeprecatedDoNotUse as PassBase
from flambeau._export.passes.lift_constants_pass import ConstantAttrMap, lift_constants_pass
from flambeau._export.passes.replace_view_ops_with_view_copy_ops_pass import (
    ReplaceViewOpsWithViewCopyOpsPass,
)
from flambeau._export.tools import report_exportability
from flambeau._export.verifier import SpecViolationError, Verifier, load_verifier
from flambeau.export import export
from flambeau.export._tree_utils import is_equivalent, reorder_kwargs
from flambeau.export.graph_signature import InputKind, InputSpec, TensorArgument
from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.utils._pytree import tree_structure

aten = torch.ops.aten


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.tensor(3.0))

    def forward(self, x, y):
        z = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return z.view(-1) * self.weight + self.shift, x + y


X = torch.rand(2, 3)


@pytest.fixture
def program():
    return export(Scaled(), (X, X))


def targets(program: Any) -> list[Any]:
    return [n.target for n in program.graph.nodes if n.op == "call_function"]


def test_programs_are_valid(program):
    program._validate()
    Verifier().check(program)
    assert program.verifier is load_verifier("TRAINING")


def test_in_place_operators_are_valid_in_training_only(program):
    add = next(n for n in program.graph.nodes if n.target == aten.add.Tensor)
    add.target = aten.add_.Tensor
    program._validate()
    with pytest.raises(SpecViolationError, match="is not functional"):
        Verifier().check(program)


def test_branches_are_checked_too(program):
    branch = program.graph_module.true_graph_0
    next(n for n in branch.graph.nodes if n.op == "call_function").target = aten.sin_.default
    with pytest.raises(SpecViolationError, match="is not functional"):
        Verifier().check(program)


def test_calls_of_modules_and_values_without_examples_are_refused(program):
    with pytest.raises(SpecViolationError):
        Verifier()._check_graph_module(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))))
    next(n for n in program.graph.nodes if n.target == aten.add.Tensor).meta.pop("val")
    with pytest.raises(SpecViolationError, match="is missing val field"):
        program._validate()


def test_signatures_that_do_not_fit_are_refused(program):
    specs = program.graph_signature.input_specs
    right = specs[0]
    specs[0] = InputSpec(InputKind.PARAMETER, TensorArgument("p_weight"), "nowhere")
    with pytest.raises(SpecViolationError, match="not in the state dict"):
        program._validate()
    program.state_dict["nowhere"] = torch.ones(())
    with pytest.raises(SpecViolationError, match=r"not an instance of torch\.nn\.Parameter"):
        program._validate()
    specs[0] = right
    program.graph_signature.output_specs.pop()
    with pytest.raises(SpecViolationError, match="Number of output nodes"):
        program._validate()
    specs.pop()
    with pytest.raises(SpecViolationError, match="Number of graph inputs"):
        program._validate()


def test_a_dialect_registers_its_verifier():
    class Edge(Verifier):
        dialect = "TEST_EDGE"

        def check_valid_op(self, op):
            if op == aten.add.Tensor:
                raise SpecViolationError("no sums")

    assert load_verifier("TEST_EDGE") is Edge
    program = export(Scaled(), (X, X))
    program.dialect = "TEST_EDGE"
    with pytest.raises(SpecViolationError, match="no sums"):
        program._validate()
    with pytest.raises(SyntaxError, match="Overriding"):
        type("Bad", (Verifier,), {"dialect": "BAD", "check": None})


def test_a_pass_that_changes_nothing_keeps_names_lines_and_results(program):
    after = program._transform_do_not_use(PassBase())
    assert [n.name for n in after.graph.nodes if n.op != "get_attr"] == \
        [n.name for n in program.graph.nodes if n.op != "get_attr"]
    assert all(n.stack_trace for n in after.graph.nodes if n.op == "call_function")
    for sign in (1, -1):
        for a, b in zip(after.module()(sign * X, X), program.module()(sign * X, X), strict=True):
            assert torch.equal(a, b)


def test_passes_replace_operators_also_in_branches(program):
    class Sines(PassBase):
        def call_operator(self, op, args, kwargs, meta):
            op = aten.sin.default if op == aten.cos.default else op
            return super().call_operator(op, args, kwargs, meta)

    result = program._transform_do_not_use(Sines()).module()(-X, X)[0]
    assert torch.allclose(result, (-X).sin().view(-1) * 2 + 3)
    copied = program._transform_do_not_use(ReplaceViewOpsWithViewCopyOpsPass())
    assert aten.view.default in targets(program)
    assert aten.view.default not in targets(copied)
    assert aten.view_copy.default in targets(copied)


def test_results_of_several_parts_tell_their_line():
    class Largest(nn.Module):
        def forward(self, x):
            return tuple(x.max(1))

    program = export(Largest(), (X,))
    getitem = [n for n in program.graph.nodes if n.name.startswith("getitem")]
    assert len(getitem) == 2 and all("x.max" in n.stack_trace or n.stack_trace for n in getitem)


def test_renamed_nodes_are_renamed_in_the_signature(program):
    def rename(module):
        for node in module.graph.nodes:
            if node.op == "call_function":
                node.name = f"{node.name}_renamed"
        return PassResult(module, True)

    after = program._transform_do_not_use(rename)
    assert all(name.endswith("_renamed") for name in after.graph_signature.user_outputs)
    assert not any(n.endswith("_renamed") for n in program.graph_signature.user_outputs)
    module, signature = copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_signature)
    with module._set_replace_hook(signature.get_replace_hook()):
        rename(module)
    assert all(name.endswith("_renamed") for name in signature.user_outputs)


def test_constants_become_inputs(program):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first, second = graph.get_attr("table"), graph.get_attr("table")
    graph.output((graph.call_function(aten.add.Tensor, (x, first)),
                  graph.call_function(aten.mul.Tensor, (x, second))))
    module = torch.fx.GraphModule({"table": X}, graph)
    signature = copy.deepcopy(program.graph_signature)
    signature.input_specs[:] = [InputSpec(InputKind.USER_INPUT, TensorArgument("x"), None)]
    constants = lift_constants_pass(module, signature, ConstantAttrMap())
    assert list(constants) == ["lifted_tensor_0"] and constants["lifted_tensor_0"] is X
    assert [spec.kind for spec in signature.input_specs] == \
        [InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT]
    assert torch.equal(module(X, X)[0], X + X)


def test_splits_and_inlined_parts_compute_the_same():
    def delimits(node):
        return node.op == "call_function" and node.target is torch._C._set_grad_enabled

    module = torch.fx.symbolic_trace(lambda x: ((x + 1).sin() - 1).cos())
    calls = [n for n in module.graph.nodes if n.op not in ("placeholder", "output")]
    for i, node in enumerate(calls[::2]):
        with module.graph.inserting_before(node):
            module.graph.call_function(torch._C._set_grad_enabled, (i % 2 == 0,))
    module.recompile()
    split = sequential_split(module, delimits)
    parts = [n for n in split.graph.nodes if n.op == "call_module"]
    assert len(parts) == 2
    with torch.enable_grad():
        assert torch.equal(split(X), module(X))
        for node in parts:
            node_inline_(node)
        assert torch.equal(split(X), module(X))
    assert not any(n.op == "call_module" for n in split.graph.nodes)
    torch._C._set_grad_enabled(True)


def test_report_names_the_modules_that_cannot_be_exported():
    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = nn.Sequential(nn.Linear(3, 3), Branching())
    report = report_exportability(model, (X,))
    assert report["0"] is None and "1" in report and report[""] is not None
    assert report_exportability(nn.Linear(3, 3), (X,)) == {"": None}


def test_keyword_arguments_follow_the_program():
    spec = tree_structure(((), {"a": 0, "b": 1}))
    assert list(reorder_kwargs({"b": 2, "a": 3}, spec)) == ["a", "b"]
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        reorder_kwargs({"a": 1}, spec)
    same = tree_structure((1, [2])), tree_structure((3, [4]))
    assert is_equivalent(*same, lambda a, c, b, d: a is b and c == d)
    assert not is_equivalent(same[0], spec, lambda a, c, b, d: a is b and c == d)
