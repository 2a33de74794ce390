"""torch.jit.trace, save and load: graphs that compute what the module does, in safe files."""

from __future__ import annotations

import io
import zipfile

import pytest

import flambeau as torch
from flambeau import nn


def network():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4, 2))


def saved_and_loaded(traced):
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.parametrize("through", [lambda m: m, saved_and_loaded])
def test_a_traced_module_computes_the_same_for_other_sizes(through):
    module = network().eval()
    traced = through(torch.jit.trace(module, torch.randn(1, 3, 8, 8)))
    x = torch.randn(5, 3, 12, 9)
    assert torch.allclose(traced(x), module(x), atol=1e-6)
    assert traced.state_dict().keys() == module.state_dict().keys()
    traced(x).sum().backward()
    assert all(p.grad is not None for p in traced.parameters())
    state = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    traced.load_state_dict(state)
    assert torch.equal(traced(x), torch.zeros(5, 2))


def test_functions_are_traced():
    traced = torch.jit.trace(lambda a, b: a @ b + a.shape[0], (torch.ones(2, 3), torch.ones(3, 4)))
    assert torch.equal(traced(torch.ones(5, 3), torch.ones(3, 4)), torch.full((5, 4), 8.0))
    assert "aten.matmul" in traced.code


def test_values_that_the_program_reads_become_constants_with_a_warning():
    with pytest.warns(torch.jit.TracerWarning, match="to a Python boolean might cause") as caught:
        traced = torch.jit.trace(lambda x: x if x.sum() > 0 else -x, torch.ones(2))
    assert len(caught) == 1 and caught[0].filename == __file__
    assert traced(torch.full((2,), -1.0)).tolist() == [-1, -1]


def test_results_that_differ_from_the_program_are_warned_of():
    with pytest.warns(torch.jit.TracerWarning, match="nondeterministic nodes"), \
            pytest.warns(torch.jit.TracerWarning, match="Output nr 1. of the traced function"):
        torch.jit.trace(nn.Dropout(), torch.ones(50))
    calls = []

    def counting(x):
        calls.append(x)
        return x * len(calls)

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"), \
            pytest.warns(torch.jit.TracerWarning, match="Output nr 1"):
        torch.jit.trace(counting, torch.ones(2))
    torch.jit.trace(counting, torch.ones(2), check_trace=False)


def test_outputs_that_traces_cannot_have():
    with pytest.raises(RuntimeError, match="Encountering a dict at the output of the tracer"):
        torch.jit.trace(lambda x: {"a": x}, torch.ones(2))
    assert torch.jit.trace(lambda x: {"a": x}, torch.ones(2), strict=False)(torch.ones(2))["a"][0]
    with pytest.warns(torch.jit.TracerWarning, match="Encountering a list at the output"):
        torch.jit.trace(lambda x: [x, x], torch.ones(2))
    with pytest.raises(RuntimeError, match="Only tensors, lists, tuples of tensors"):
        torch.jit.trace(lambda x: 3, torch.ones(2))
    with pytest.raises(RuntimeError, match="The traced function didn't return any values!"):
        torch.jit.trace(lambda x: None, torch.ones(2))
    with pytest.raises(RuntimeError, match="consistent element type. Found Tensor and Tuple"):
        torch.jit.trace(lambda x: [x, (x,)], torch.ones(2))
    with pytest.raises(RuntimeError, match="cannot be understood by the tracer"):
        torch.jit.trace(lambda x: {"a": [x]}, torch.ones(2), strict=False)
    captured = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad"):
        torch.jit.trace(lambda x: x + captured, torch.ones(2))


def test_an_input_that_is_a_parameter_or_passed_twice_stays_an_input():
    module = nn.Linear(2, 2)
    traced = torch.jit.trace(module, module.weight)
    x = torch.randn(3, 2)
    torch.testing.assert_close(traced(x), module(x))
    same = torch.ones(2)
    assert torch.jit.trace(lambda a, b: a - b, (same, same))(same * 3, same).tolist() == [2, 2]


def test_loaded_and_traced_modules_are_saved_within_a_scripted_one():
    def reloaded(module):
        return torch.jit.load(io.BytesIO(module.save_to_buffer()))

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(x) + torch.tensor(3.0)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = reloaded(torch.jit.script(Inner()))
            self.second = torch.jit.trace(Inner(), torch.ones(1, 2))
            self.third = reloaded(torch.jit.script(Inner()))

        def forward(self, x):
            return self.first(x) + self.second(x) * self.third(x)

    module = Outer()
    scripted = torch.jit.script(module)
    x = torch.randn(1, 2)
    for again in (reloaded(scripted), reloaded(reloaded(scripted))):
        torch.testing.assert_close(again(x), module(x))


def test_what_no_file_can_hold(tmp_path):
    with pytest.raises(NotImplementedError, match="only a scripted, traced or loaded module"):
        torch.jit.save(network(), io.BytesIO())
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading zip archive"):
        torch.jit.load(io.BytesIO(b"nothing"))
    with pytest.raises(ValueError, match="The provided filename nowhere.pt does not exist"):
        torch.jit.load("nowhere.pt")
    with pytest.raises(ValueError, match="is a directory"):
        torch.jit.load(tmp_path)
    script = io.BytesIO()
    with zipfile.ZipFile(script, "w") as archive:
        archive.writestr("net/code/__torch__.py", "import os")
    script.seek(0)
    with pytest.raises(RuntimeError, match=r"failed locating file constants.pkl: file not found"):
        torch.jit.load(script)


def test_programs_can_ask_whether_they_are_traced():
    seen = []

    def double(x):
        seen.append((torch.jit.is_tracing(), torch._C._get_tracing_state() is not None))
        return 2 * x

    torch.jit.trace(double, torch.ones(2))
    double(torch.ones(2))
    assert set(seen[:-1]) == {(True, True)} and seen[-1] == (False, False)


def test_a_fixed_size_leaves_the_others_free():
    def walk(x, edges):  # edges has two rows
        source, target = edges
        return x.index_add(0, target, x[source])

    traced = torch.jit.trace(walk, (torch.randn(4, 3), torch.tensor([[0, 1, 2], [1, 2, 3]])))
    x, edges = torch.randn(9, 5), torch.tensor([[0, 8], [4, 4]])
    assert torch.equal(traced(x, edges), walk(x, edges))


def test_an_inner_size_is_computed_anew_beside_a_fixed_one():
    def regroup(x):
        return x.view(x.shape[1] * 2, x.size(0), 2)  # the last axis has to be 4 long

    traced, x = torch.jit.trace(regroup, torch.randn(5, 2, 4)), torch.randn(4, 8, 4)
    assert torch.equal(traced(x), regroup(x))

    def flatten(inputs, scale):
        return inputs["x"].view(-1, inputs["x"].shape[1] * inputs["x"].shape[2]) * scale[0]

    inputs = {"x": torch.randn(2, 3, 5)}
    traced = torch.jit.trace(flatten, (inputs, (torch.ones(1),)))
    inputs = {"x": torch.randn(4, 2, 3)}
    assert torch.equal(traced(inputs, (torch.ones(1),)), flatten(inputs, (torch.ones(1),)))
    with pytest.raises(RuntimeError, match="not in the map"):
        traced({"y": torch.ones(2, 3, 5)}, (torch.ones(1),))


UNTRACEABLE = {
    "number": ((1,), r"Type 'Tuple\[int\]' cannot be traced. Only Tensors and \(possibly nested"),
    "empty": (({"a": []},), "Tracer cannot infer type of .*\n:List trace inputs must have elem"),
    "mixed": (([torch.ones(2), (torch.ones(2),)],), "Found Tensor and Tuple.Tensor."),
    "keys": (({"a": torch.ones(2), 1: torch.ones(2)},), "consistent type. Found str and int"),
    "object": ((object(),), "instead got value of type object."),
}


@pytest.mark.parametrize("name", list(UNTRACEABLE))
def test_inputs_that_traces_cannot_have(name):
    inputs, message = UNTRACEABLE[name]
    with pytest.raises(RuntimeError, match=message):
        torch.jit.trace(lambda x: torch.ones(1), inputs)


class TwoMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        return self.conv(x) + self.calls

    def weigh(self, factor):
        return factor * self.conv.weight + torch.tensor([2.0]) * self.calls


@pytest.mark.parametrize("through", [lambda traced: traced, saved_and_loaded])
def test_several_methods_are_traced(through):
    model, x, factor = TwoMethods(), torch.randn(1, 1, 5, 5), torch.randn(1, 1, 3, 3)
    inputs = {"forward": x, "weigh": factor}
    traced = through(torch.jit.trace_module(model, inputs, check_inputs=[inputs]))
    assert torch.equal(traced(x), model(x)) and torch.equal(traced.weigh(factor),
                                                            model.weigh(factor))
    assert traced._c._has_method("weigh") and not traced._c._has_method("other")
    traced.double().load_state_dict({**model.state_dict(), "calls": torch.ones(1)})
    assert torch.equal(traced.weigh(factor), factor * traced.conv.weight + 2)


def test_methods_that_cannot_be_traced():
    with pytest.raises(AttributeError, match="Please use trace_module"):
        torch.jit.trace(TwoMethods().weigh, torch.ones(1))
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        torch.jit.trace_module(TwoMethods(), {"nope": torch.ones(1)})
    with pytest.raises(AttributeError, match="expected a dictionary"):
        torch.jit.trace_module(TwoMethods(), [torch.ones(1)])
    with pytest.raises(AttributeError, match="expected torch.nn.Module"):
        torch.jit.trace_module(len, {})


def test_sizes_out_of_values_are_computed_anew():
    def loops(index):
        count = index.max() + 1
        return torch.cat([index, torch.arange(0, count).view(1, -1).repeat(2, 1)], dim=1)

    traced = torch.jit.trace(loops, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    index = torch.tensor([[0, 8], [4, 4]])
    assert torch.equal(traced(index), loops(index))


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet"])
def test_traced_draws_are_those_of_the_function(torch, name):
    """Draws without a public name are one call in a trace, as in eager mode."""
    kind = getattr(torch.distributions, name)

    def draw(a):
        return (kind(a) if name == "Dirichlet" else kind(a, torch.ones_like(a))).rsample()

    a = torch.tensor([1.0, 2.0, 3.0])
    traced = torch.jit.trace(draw, (a,), check_trace=False)
    torch.manual_seed(0)
    expected = draw(a)
    torch.manual_seed(0)
    assert torch.equal(traced(a), expected)


def test_other_inputs_are_checked():
    def grow(x):
        for _ in range(x.size(0)):
            x = x * 2
        return x

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"), \
            pytest.warns(torch.jit.TracerWarning, match="Output nr 1"):
        torch.jit.trace(grow, torch.ones(3, 4), check_inputs=[torch.ones(4, 4)])
    traced = torch.jit.trace(lambda x: x * 2, torch.ones(3), check_inputs=[(torch.ones(5),)])
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))


def test_a_tensor_says_how_many_elements_topk_returns():
    x = torch.tensor([[3, 1, 2]])
    assert torch.equal(x.topk(torch.tensor(2), dim=1)[0], torch.tensor([[3, 2]]))


def test_broadcast_shapes_follow_the_input(torch):
    """They were those of the example, so that traces and exports refused other batches."""
    def expand(x):
        batch = torch.broadcast_shapes(x.shape[:-1], x[:, 0].shape, (1,))
        return x.sum(-1, keepdim=True).expand((*batch, 5))

    traced = torch.jit.trace(expand, torch.randn(3, 5))
    x = torch.randn(4, 5)
    torch.testing.assert_close(traced(x), expand(x))

    class Expansion(torch.nn.Module):
        def forward(self, x):
            return expand(x)

    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(Expansion(), (torch.randn(3, 5),), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(exported.module()(x), expand(x))
    assert torch.broadcast_shapes in torch.overrides.get_ignored_functions()
