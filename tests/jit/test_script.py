"""torch.jit.script: Python that runs as it is, and archives out of its source."""

from __future__ import annotations

import copy
import io
import pickle

import pytest


import flambeau as torch
from flambeau import nn

from . import scripted_programs as programs


def leaves(value):
    return [t for v in value for t in leaves(v)] if isinstance(value, (tuple, list)) else [value]


def archive_of(scripted):
    return io.BytesIO(scripted.save_to_buffer())


@pytest.mark.parametrize("name", programs.CASES)
@pytest.mark.parametrize("train", [True, False])
def test_an_archive_computes_what_the_module_does(name, train):
    make, draw = programs.CASES[name]
    module, x = make().train(train), draw()
    scripted = torch.jit.script(copy.deepcopy(module))
    loaded = torch.jit.load(archive_of(scripted))
    assert list(loaded.state_dict()) == list(module.state_dict())
    for result, expected in zip(leaves(loaded(x.clone())), leaves(module(x.clone())), strict=True):
        torch.testing.assert_close(result, expected)
    leaves(loaded(x.clone()))[0].sum().backward()


@pytest.mark.parity
@pytest.mark.parametrize("name", programs.CASES)
def test_pytorch_reads_the_archive(name):
    pytorch = pytest.importorskip("torch")
    make, draw = programs.CASES[name]
    module, x = make(), draw()
    theirs = pytorch.jit.load(archive_of(torch.jit.script(module)))
    results = leaves(theirs(pytorch.from_numpy(x.numpy().copy())))
    for result, expected in zip(results, leaves(module(x.clone())), strict=True):
        if isinstance(expected, torch.Tensor):
            assert abs(result.detach().numpy() - expected.detach().numpy()).max() < 1e-5
        else:
            assert result == expected


def test_a_scripted_module_is_the_module_on_the_same_tensors():
    module = programs.ControlFlow()
    scripted = torch.jit.script(module)
    assert isinstance(scripted, torch.jit.RecursiveScriptModule)
    assert isinstance(scripted, programs.ControlFlow)
    assert scripted.weight is module.weight
    assert torch.jit.script(scripted) is scripted
    assert repr(scripted).startswith("RecursiveScriptModule(\n  original_name=ControlFlow\n")
    scripted.eval()
    assert module.training
    assert not scripted.layers[0].training
    loaded = torch.jit.load(archive_of(scripted))
    assert loaded.above({"a": 1, "b": 3}, 2) == scripted.above({"a": 1, "b": 3}, 2) == ["b-3"]
    with pytest.raises(torch.jit.Error, match="deep 6"):
        loaded(torch.ones(3, 2, 1, 1, 1, 2))


def test_settings_are_written_in_and_dead_branches_left_out():
    code = torch.jit.script(programs.Perceptron()).code
    assert code.startswith("def forward(self, x: Tensor):\n")
    assert "0.5" in code
    assert "dropout" not in code


def test_a_function():
    function = programs.doubled
    assert isinstance(function, torch.jit.ScriptFunction)
    assert function.name == function.__name__ == "doubled"
    assert function.code == ("def doubled(x: Tensor, times: int=2):\n  for _ in range(times):\n"
                             "      x = __torch__.bounded(x * 2, -100.0, 100.0)\n  return x\n")
    loaded = torch.jit.load(archive_of(function))
    for times in (1, 3):
        assert torch.equal(loaded(torch.ones(2), times), function(torch.ones(2), times))
    assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function


@pytest.mark.parametrize("reason", programs.REFUSED)
def test_what_is_no_torchscript_names_the_line(reason):
    scripted = torch.jit.script(programs.REFUSED[reason]())
    with pytest.raises(NotImplementedError, match=reason) as caught:
        scripted.save(io.BytesIO())
    note = caught.value.__notes__[0]
    assert "scripted_programs.py" in note
    assert "torch.jit.trace" in note


def test_frozen_modules():
    module = programs.Convolutional()
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        torch.jit.freeze(module)
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(torch.jit.script(module))
    frozen = torch.jit.optimize_for_inference(torch.jit.script(module.eval()))
    x = torch.randn(2, 3, 8, 8)
    assert torch.allclose(frozen(x), module(x), atol=1e-6)  # its batch norm is folded
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in module.parameters())


def test_other_objects_stay():
    assert torch.jit.script(abs) is abs
    assert torch.jit.script(nn.Linear) is nn.Linear


def test_calls_of_scripted_functions_are_proved():
    from flambeau.compiler.proof import declarations

    assert not declarations.is_in_library(torch.jit.ScriptFunction.__call__.__code__)


def test_a_compilation_unit_has_the_functions_of_a_text(tmp_path):
    unit = torch.jit.CompilationUnit("""
        def scale(x, n):
            # type: (Tensor, int) -> Tensor
            factor = 2.0  # type: float
            return x * factor * n
    """)
    x = torch.ones(2)
    assert torch.equal(unit.scale(x, 3), x * 6)
    assert unit.scale.code.startswith("def scale(x: Tensor, n: int) -> Tensor:")
    unit.scale.save(tmp_path / "scale.pt")
    assert torch.equal(torch.jit.load(tmp_path / "scale.pt")(x, 3), x * 6)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        unit.other  # noqa: B018
    with pytest.raises(RuntimeError, match="expected 'def'"):
        torch.jit.CompilationUnit("x = 1")


def test_a_block_without_gradients_is_written():
    @torch.jit.script
    def halves(x):
        with torch.no_grad():
            scale = x.sum()
        return x * scale

    file = io.BytesIO(halves.save_to_buffer())
    x = torch.ones(2, requires_grad=True)
    torch.jit.load(file)(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]  # 4.0 if the sum took part

    @torch.jit.script
    def opened(x):
        with open("file"):
            return x

    with pytest.raises(NotImplementedError, match=r"a with of anything but torch\.no_grad"):
        opened.code  # noqa: B018


class Derived(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


def test_a_derived_script_module_saves_itself(tmp_path):
    module = Derived()
    module.save(tmp_path / "derived.pt")
    x = torch.ones(1, 2)
    assert torch.equal(torch.jit.load(tmp_path / "derived.pt")(x), module(x))
    assert torch.equal(torch.jit.load(io.BytesIO(module.save_to_buffer()))(x), module(x))
    with pytest.raises(RuntimeError, match="Parent directory .*none does not exist"):
        module.save(tmp_path / "none" / "derived.pt")


def test_what_the_code_raises_is_a_script_error(torch):
    @torch.jit.script
    def checked(x: torch.Tensor, n: int):
        assert n < 5, "n is large"
        if n == 3:
            raise ValueError("three")
        return x[n]

    class Checked(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            torch._assert(x.shape[-1] == 2, "no pairs")
            return checked(x, 5)

    pairs = torch.ones(3, 2)
    for function, arguments, message in (
        (checked, (pairs, 7), "AssertionError: n is large"),
        (checked, (pairs, 3), "ValueError: three"),
        (torch.jit.script(Checked()), (torch.ones(3),), "AssertionError: no pairs"),
        (torch.jit.script(Checked()), (pairs,), "AssertionError: n is large"),
    ):
        with pytest.raises(torch.jit.Error, match=message):
            function(*arguments)
    with pytest.raises(RuntimeError, match="out of range|out of bounds"):
        checked(pairs, 4)
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'x'"):
        torch.jit.script(Checked())()
    with pytest.raises(RuntimeError, match=r"expected at most 2 argument\(s\) but received"):
        checked(pairs, 1, 2)


def test_lazy_modules_are_refused():
    for layer, kind in ((nn.LazyLinear(2), "parameters weight"),
                        (nn.LazyBatchNorm1d(affine=False), "buffers running_mean")):
        with pytest.raises(RuntimeError, match=f"uninitialized {kind}.*run a forward pass"):
            torch.jit.script(nn.Sequential(layer))
        layer(torch.ones(2, 3))
        torch.jit.script(layer)
