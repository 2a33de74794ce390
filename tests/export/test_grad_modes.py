"""Exported programs keep the grad modes that a module switches to."""

from __future__ import annotations

import io

import pytest

import flambeau


def build(torch, compute):
    """A module with the parameter `weight`, 2, and a function of it and the input as forward."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return compute(self.weight, x)

    return Module()


def gradient(torch, module):
    """The gradient of the only parameter, or None if the result depends on none."""
    result = module(torch.ones(3))
    if not result.requires_grad:
        return None
    (weight,) = module.parameters()
    weight.grad = None
    result.backward()
    return weight.grad.item()


def export(torch, compute):
    return torch.export.export(build(torch, compute), (torch.ones(3),))


def calls(program):
    return [n.name for n in program.graph.nodes if n.op == "call_function"]


def under_no_grad(torch):
    def compute(weight, x):
        with torch.no_grad():
            y = weight * x
        return y.sum() + weight

    return compute


def within_no_grad(torch):
    def compute(weight, x):
        with torch.no_grad():
            y = weight * x
            with torch.enable_grad():
                z = weight * y
        return (y * z).sum()

    return compute


def decorated(torch):
    @torch.no_grad()
    def scale(weight, x):
        return weight * x

    return lambda weight, x: scale(weight, x).sum() + weight


def switched_and_restored(torch):
    def compute(weight, x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = weight * x
        torch.set_grad_enabled(before)
        return y.sum() + weight

    return compute


def all_of_it(torch):
    def compute(weight, x):
        with torch.no_grad():
            return (weight * x).sum()

    return compute


def several_results(torch):
    def compute(weight, x):
        with torch.set_grad_enabled(False):
            a, b = (weight * x).split([1, 2])
            a = a + b[:1]
        return (a * weight).sum() + b.sum()

    return compute


PROGRAMS = [under_no_grad, within_no_grad, decorated, switched_and_restored, all_of_it,
            several_results]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_exported_module_has_the_gradients_of_the_original(torch, program):
    compute = program(torch)
    expected = gradient(torch, build(torch, compute))
    exported = export(torch, compute)
    assert "wrap_with_set_grad_enabled" in str(exported)
    assert gradient(torch, exported.module()) == expected
    assert gradient(torch, torch.export.unflatten(exported)) == expected
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    assert gradient(torch, torch.export.load(file).module()) == expected


def test_regions_are_submodules_that_return_what_others_read(torch):
    exported = export(torch, within_no_grad(torch))
    region = exported.graph_module.submod_1
    assert [n.name for n in region.graph.nodes] == ["p_weight", "x", "mul", "output"]
    call = next(n for n in exported.graph.nodes if "wrap_with_set_grad" in str(n.target))
    assert call.args[0] is False and call.args[1].target == "submod_1"
    assert [a.name for a in call.args[2:]] == ["p_weight", "x"]


def test_a_switch_to_the_mode_of_the_export_is_no_region(torch):
    def compute(weight, x):
        with torch.enable_grad():
            y = weight * x
        return y.sum() + weight

    assert calls(export(torch, compute)) == ["mul", "sum_1", "add"]
    with torch.no_grad():
        plain, wrapped = export(torch, under_no_grad(torch)), export(torch, compute)
        assert gradient(torch, wrapped.module()) is None
    assert calls(plain) == ["mul", "sum_1", "add"]
    assert gradient(torch, plain.module()) == 4
    assert "wrap_with_set_grad_enabled" in str(wrapped)


def test_inference_modes_are_not_kept(torch):
    def compute(weight, x):
        with torch.inference_mode():
            y = weight * x
        return y.sum() + weight

    assert calls(export(torch, compute)) == ["mul", "sum_1", "add"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_decompositions_drop_regions(torch, program):
    exported = export(torch, program(torch))
    expected = exported.module()(torch.arange(3.0))
    core = exported.run_decompositions()
    assert "wrap_with_set_grad_enabled" not in str(core)
    assert torch.equal(core.module()(torch.arange(3.0)), expected)


def test_a_region_in_a_branch(torch):
    def scale(weight, x):
        with torch.no_grad():
            y = weight * x
        return y + weight

    def compute(weight, x):
        return torch.cond(x.sum() > 0, lambda x: scale(weight, x), lambda x: x * weight,
                          (x,)).sum()

    check_branches(torch, compute, 3)


def test_a_branch_in_a_region():  # of which PyTorch's export loses the region
    def compute(weight, x):
        with flambeau.no_grad():
            y = flambeau.cond(x.sum() > 0, lambda x: x * weight, lambda x: x - weight, (x,))
        return (y * weight).sum()

    check_branches(flambeau, compute, 6)


def check_branches(torch, compute, expected):
    """Compare gradients where the first branch runs, and results where the second does."""
    original = build(torch, compute)
    exported = torch.export.export(original, (torch.ones(3),))
    module = exported.module()
    assert gradient(torch, module) == gradient(torch, original) == expected
    x = -torch.ones(3)
    assert torch.equal(module(x), original(x))
    assert torch.equal(exported.run_decompositions().module()(x), original(x))


def test_custom_functions_and_hooks_run_in_the_mode_of_their_caller(torch):
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    original = build(torch, lambda weight, x: Triple.apply(weight * x).sum())
    assert "wrap_with" not in str(torch.export.export(original, (torch.ones(3),)))
    seen = []
    original.register_full_backward_hook(lambda *_: seen.append(1))
    exported = torch.export.export(original, (torch.ones(3, requires_grad=True),))
    assert gradient(torch, exported.module()) == 9
    assert not seen


def test_a_region_that_writes_a_buffer(torch):
    class Counted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            with torch.no_grad():
                self.count.add_(1)
            return x * self.count

    module = torch.export.export(Counted(), (torch.ones(3),)).module()
    assert [module(torch.ones(3))[0].item() for _ in range(2)] == [1, 2]


def test_dynamic_lengths_pass_regions(torch):
    def compute(weight, x):
        with torch.no_grad():
            y = (weight * x).view(x.shape[0], 1)
        return (y.expand(x.shape[0], 2) * weight).sum()

    original = build(torch, compute)
    exported = torch.export.export(original, (torch.ones(4),),
                                   dynamic_shapes={"x": {0: torch.export.Dim("n", min=2)}})
    assert gradient(torch, exported.module()) == gradient(torch, original) == 12


def test_traces_ignore_grad_modes(torch):
    traced = torch.jit.trace(build(torch, under_no_grad(torch)), (torch.ones(3),))
    assert gradient(torch, traced) == 4
