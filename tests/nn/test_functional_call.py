"""functional_call: a module with other tensors in place of its own; stacking of modules."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture
def call(nn):
    """`functional_call`, under the name that does not warn."""
    return nn.utils.stateless._functional_call


@pytest.fixture
def scale(torch, nn):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0]))
            self.tied = self.weight
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x, plus=0):
            self.count = self.count + 1
            return x * self.weight + self.tied + plus

    return Scale()


def test_functional_call(torch, call, scale):
    weight = torch.tensor([10.0], requires_grad=True)
    tensors = {"weight": weight, "count": torch.tensor([5.0])}
    result = call(scale, tensors, torch.tensor([1.0]), {"plus": 3})
    assert result.tolist() == [23.0]
    result.sum().backward()
    assert weight.grad.tolist() == [2.0]
    assert scale.weight.grad is None
    assert tensors["count"].tolist() == [6.0]
    assert scale.count.tolist() == [0.0]
    assert scale(torch.tensor([1.0])).tolist() == [4.0]


def test_functional_call_undoes_after_an_error(torch, call, scale):
    before = scale.weight
    with pytest.raises(TypeError):
        call(scale, {"weight": torch.ones(1)}, ("a", "b", "c"))
    assert scale.weight is before


def test_functional_call_of_tied_weights(torch, call, scale):
    x, weight = torch.tensor([1.0]), torch.tensor([1.0])
    assert call(scale, {"weight": weight}, x).tolist() == [2.0]
    assert call(scale, {"weight": weight}, x, tie_weights=False).tolist() == [3.0]
    with pytest.raises(ValueError, match=r"got multiple values for keys \['tied', 'weight'\]"):
        call(scale, {"weight": weight, "tied": torch.ones(1)}, x)


def test_functional_call_strict(torch, call, scale):
    with pytest.raises(RuntimeError) as caught:
        call(scale, {"weight": torch.ones(1), "w": torch.ones(1)}, 1, strict=True)
    assert str(caught.value) == (
        "Error(s) in reparametrizing for Scale:\n\tUnexpected key(s): 'w'.\n\t"
        "Missing key(s): 'count'."
    )


def test_functional_call_of_submodules(torch, nn, call):
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    assert call(model, {"0.weight": torch.ones(1, 2)}, torch.tensor([3.0, 4.0])).tolist() == [7.0]
    with pytest.warns(FutureWarning, match=r"`torch.func.functional_call` instead"):
        nn.utils.stateless.functional_call(model, {}, torch.ones(2))


def test_functional_call_over_dictionaries(torch, nn):
    call = torch.func.functional_call
    layer = nn.Linear(2, 1)
    tensors = ({"weight": torch.ones(1, 2)}, {"bias": torch.ones(1)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(layer, tensors, torch.tensor([3.0, 4.0])).tolist() == [8.0]
    with pytest.raises(ValueError, match=r"\['weight'\] appeared in multiple dictionaries"):
        call(layer, (tensors[0], tensors[0]), torch.ones(2))
    with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
        call(layer, 3, torch.ones(2))


def test_stack_module_state(torch, nn):
    models = [nn.BatchNorm1d(2) for _ in range(3)]
    models[1].weight.data.fill_(5.0)
    parameters, buffers = torch.func.stack_module_state(models)
    assert parameters["weight"].tolist() == [[1.0, 1.0], [5.0, 5.0], [1.0, 1.0]]
    assert parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad
    assert not buffers["running_mean"].requires_grad
    assert buffers["num_batches_tracked"].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        torch.func.stack_module_state([])
    with pytest.raises(RuntimeError, match="Expected all models to be of the same class"):
        torch.func.stack_module_state([nn.ReLU(), nn.Identity()])


def test_scripted_modules_are_refused(torch, nn, call):
    layer = nn.Linear(2, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = torch.jit.script(layer), torch.jit.trace(layer, torch.ones(1, 2))
    for module in modules:
        for function in (call, torch.func.functional_call):
            with pytest.raises(RuntimeError, match="can't be used with Jitted modules"):
                function(module, {"weight": torch.ones(1, 2)}, torch.ones(1, 2))
