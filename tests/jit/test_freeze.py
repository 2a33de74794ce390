"""torch.jit.freeze and optimize_for_inference: what is left of a module, and what it computes."""

import copy
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


class _Programs:
    """Modules whose results a symbolic trace would change: they stay as they are."""

    def __init__(self, torch):
        class Base(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.calls = torch.nn.Linear(3, 3), 0
                self.register_buffer("count", torch.zeros(1))

        class Counts(Base):
            def forward(self, x):
                self.count.add_(1)
                return self.linear(x) * self.count

        class CountsCalls(Base):
            def forward(self, x):
                self.calls = self.calls + 1
                return self.linear(x) * self.calls

        class Draws(Base):
            def forward(self, x):
                return self.linear(x) + torch.rand(3)

        class Branches(Base):
            def forward(self, x):
                if bool(x.sum() > 0):
                    return x
                return self.linear(x)

        class WritesConstants(Base):
            def forward(self, x):
                y = torch.zeros(1, 3)
                y += x
                return y

        self.kinds = {kind.__name__: kind for kind in (Counts, CountsCalls, Draws, Branches,
                                                       WritesConstants)}


@pytest.mark.parametrize("name", ["Counts", "CountsCalls", "Draws", "Branches", "WritesConstants"])
def test_programs_with_effects_compute_the_same_frozen(torch, name):
    module = _Programs(torch).kinds[name]().eval()
    source = copy.deepcopy(module)
    frozen = torch.jit.freeze(torch.jit.script(source))
    for x in (torch.ones(1, 3), -torch.ones(1, 3), torch.randn(1, 3)):
        torch.manual_seed(0)
        computed = frozen(x)
        torch.manual_seed(0)
        assert torch.allclose(computed, module(x), atol=1e-6)


@pytest.mark.parametrize("way", ["script", "trace"])
def test_batch_norms_and_dropout_are_folded(torch, way):
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                           nn.ConvTranspose2d(4, 2, 3), nn.BatchNorm2d(2), nn.Dropout(),
                           nn.Flatten(1), nn.Linear(128, 5), nn.BatchNorm1d(5))
    x = torch.randn(4, 3, 8, 8)
    module(x)
    module.eval()
    source = torch.jit.script(module) if way == "script" else torch.jit.trace(module, x)
    frozen, plain = torch.jit.freeze(source), torch.jit.freeze(source, optimize_numerics=False)
    expected = module(x)
    kinds = [[node.kind() for node in f.graph.nodes()] for f in (frozen, plain)]
    assert not any("dropout" in kind for kind in kinds[1])
    assert kinds[1].count("aten::batch_norm") == 3
    assert kinds[0].count("aten::batch_norm") == (1 if torch.__name__ == "torch" else 0)
    for _ in range(2):
        assert torch.allclose(frozen(x), expected, atol=1e-5)
        assert torch.allclose(plain(x), expected, atol=1e-6)


@pytest.mark.parametrize("way", ["script", "trace"])
def test_what_depends_on_parameters_only_is_computed_once(torch, way):
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 2))

        def forward(self, x):
            return x @ (self.weight.t() / self.weight.norm()).abs()

    module, x = Normed().eval(), torch.randn(4, 2)
    source = torch.jit.script(module) if way == "script" else torch.jit.trace(module, x)
    frozen = torch.jit.freeze(source)
    assert torch.allclose(frozen(x), module(x)) and not frozen(x).requires_grad
    assert [node.kind() for node in frozen.graph.nodes()
            if node.kind() != "prim::Constant"] == ["aten::matmul"]
