"""torch.jit.freeze and optimize_for_inference: what is left of a module, and what it computes."""

import io

import pytest


@pytest.fixture
def module(torch):
    nn = torch.nn

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.factor = nn.Linear(2, 3), nn.BatchNorm1d(3), 3
            self.register_buffer("shift", torch.ones(3))

        def forward(self, x):
            return self.norm(self.linear(x)) * self.factor + self.shift

        @torch.jit.export
        def add(self, x):
            return x + self.factor

    module = Scaled()
    module(torch.randn(8, 2))  # moves the running statistics
    return module.eval()


def test_state_cannot_be_reached(torch, module):
    x = torch.randn(4, 2)
    frozen = torch.jit.freeze(torch.jit.script(module))
    assert torch.allclose(frozen(x), module(x), atol=1e-6)
    assert len(frozen.state_dict()) == 0 and len(list(frozen.parameters())) == 0
    assert [name for name, _ in frozen.named_modules()] == [""]
    for name in ("linear", "factor", "shift", "add", "training"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(frozen, name)


def test_training_mode_changes_nothing(torch, module):
    x = torch.randn(4, 2)
    frozen = torch.jit.freeze(torch.jit.script(module))
    expected = frozen(x)
    assert torch.equal(frozen.train()(x), expected) and frozen.training
    assert not frozen.eval().training


def test_later_changes_of_the_original_do_not_matter(torch, module):
    x = torch.randn(4, 2)
    frozen = torch.jit.freeze(torch.jit.script(module))
    expected = module(x)
    with torch.no_grad():
        module.linear.weight.zero_()
    assert torch.allclose(frozen(x), expected, atol=1e-6)
    assert not frozen(x).requires_grad


def test_preserved_attributes(torch, module):
    x = torch.randn(4, 2)
    frozen = torch.jit.freeze(torch.jit.script(module), preserved_attrs=["factor", "add"])
    assert frozen.factor == 3 and torch.equal(frozen.add(x), x + 3)
    frozen.factor = 7
    hidden = module.norm(module.linear(x))
    assert torch.allclose(frozen(x), hidden * 7 + module.shift, atol=1e-5)
    assert torch.equal(frozen.add(x), x + 7)
    with pytest.raises(AttributeError, match="linear"):
        _ = frozen.linear
    assert torch.jit.freeze(torch.jit.script(module), ["linear"]).linear.weight.shape == (3, 2)


def test_archives_of_frozen_modules(torch, module):
    x, file = torch.randn(4, 2), io.BytesIO()
    torch.jit.save(torch.jit.freeze(torch.jit.script(module)), file)
    file.seek(0)
    assert torch.allclose(torch.jit.load(file)(x), module(x), atol=1e-6)


def test_traced_modules(torch, module):
    x = torch.randn(4, 2)
    frozen = torch.jit.freeze(torch.jit.trace(module, x))
    assert torch.allclose(frozen(x), module(x), atol=1e-6)
    assert len(frozen.state_dict()) == 0


def test_optimize_for_inference(torch, module):
    x = torch.randn(4, 2)
    optimized = torch.jit.optimize_for_inference(torch.jit.script(module.train()))
    assert torch.allclose(optimized(x), module.eval()(x), atol=1e-5)
    assert len(optimized.state_dict()) == 0
    with pytest.raises(RuntimeError, match="optimize_for_inference expects a ScriptModule"):
        torch.jit.optimize_for_inference(module)


def test_refusals(torch, module):
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        torch.jit.freeze(module)
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        torch.jit.freeze(torch.jit.script(module.train()))
    with pytest.raises(RuntimeError, match="Unknown name: nothing"):
        torch.jit.freeze(torch.jit.script(module.eval()), preserved_attrs=["nothing"])


@pytest.mark.parametrize("how", ["script", "trace", "load"])
def test_archives_have_no_state(torch, module, how):
    x, file = torch.randn(4, 2), io.BytesIO()
    source = torch.jit.trace(module, x) if how == "trace" else torch.jit.script(module)
    if how == "load":
        torch.jit.save(source, file)
        file.seek(0)
        source, file = torch.jit.load(file), io.BytesIO()
    torch.jit.save(torch.jit.freeze(source), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    assert torch.allclose(loaded(x), module(x), atol=1e-6)
    assert len(loaded.state_dict()) == 0 and not list(loaded.parameters())
