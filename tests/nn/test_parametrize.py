"""Parametrizations; weight and spectral normalisation, by hooks and as parametrizations."""

from __future__ import annotations

import copy
import pickle

import pytest


@pytest.fixture
def parametrize(nn):
    return nn.utils.parametrize


@pytest.fixture
def parts(torch, nn):
    """Parametrizations: Double and Shift (with inverses), Split (into two), Count (calls)."""

    class Double(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    class Shift(nn.Module):
        def forward(self, x):
            return x + 1

        def right_inverse(self, x):
            return x - 1

    class Split(nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x - 1, torch.ones_like(x)

    class Count(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 1

    return {"Double": Double, "Shift": Shift, "Split": Split, "Count": Count}


def test_registering_keeps_the_value(torch, nn, parametrize, parts):
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    assert parametrize.register_parametrization(layer, "weight", parts["Double"]()) is layer
    assert torch.equal(layer.weight, before)
    assert torch.equal(layer.parametrizations.weight.original, before / 2)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")


def test_gradients_reach_the_original(torch, nn, parametrize, parts):
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.ones(2))
    parametrize.register_parametrization(layer, "weight", parts["Double"]())
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [2.0, 2.0]


def test_assigning_and_stacking(torch, nn, parametrize, parts):
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.ones(2))
    for name in ("Double", "Shift"):
        parametrize.register_parametrization(layer, "weight", parts[name]())
    assert layer.weight.tolist() == [2.0, 2.0]
    layer.weight = torch.tensor([5.0, 9.0])
    assert layer.weight.tolist() == [5.0, 9.0]
    assert layer.parametrizations.weight.original.tolist() == [2.0, 4.0]


def test_several_originals(torch, nn, parametrize, parts):
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.tensor([3.0]))
    parametrize.register_parametrization(layer, "weight", parts["Split"]())
    parametrization = layer.parametrizations.weight
    assert (parametrization.original0.item(), parametrization.original1.item()) == (2.0, 1.0)
    layer.weight = torch.tensor([8.0])
    assert parametrization.original0.item() == 7.0
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.item() == 8.0


@pytest.mark.parametrize("leave", [True, False])
def test_removing(torch, nn, parametrize, parts, leave):
    layer = nn.Module()
    layer.weight = weight = nn.Parameter(torch.ones(2))
    layer.register_buffer("b", torch.ones(1))
    parametrize.register_parametrization(layer, "weight", parts["Count"]())
    parametrize.register_parametrization(layer, "b", parts["Double"]())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert type(layer).__name__ == "ParametrizedModule"
    assert layer.weight is weight
    parametrize.remove_parametrizations(layer, "b", leave_parametrized=leave)
    assert type(layer) is nn.Module
    assert layer.b.tolist() == [1.0 if leave else 0.5]
    assert not parametrize.is_parametrized(layer)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def test_cached(torch, nn, parametrize, parts):
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.ones(2))
    count = parts["Count"]()
    parametrize.register_parametrization(layer, "weight", count)
    count.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert count.calls == 1
    assert layer.weight is not layer.weight
    assert count.calls == 3


def test_copies(torch, nn, parametrize, parts):
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.ones(2))
    parametrize.register_parametrization(layer, "weight", parts["Double"]())
    other = copy.deepcopy(layer)
    other.weight = torch.zeros(2)
    assert layer.weight.tolist() == [1.0, 1.0]
    assert other.weight.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only"):
        pickle.dumps(layer)


def test_transfer(torch, nn, parametrize, parts):
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(first, "weight", parts["Double"]())
    parametrize.transfer_parametrizations_and_params(first, second)
    assert torch.equal(first.weight, second.weight)
    parametrization = second.parametrizations.weight
    assert parametrization.original is first.parametrizations.weight.original


def test_refusals(torch, nn, parametrize, parts):
    class Flat(nn.Module):
        def forward(self, x):
            return x.reshape(-1)

    class Wide(nn.Module):
        def forward(self, x):
            return x.double()

    class Number(nn.Module):
        def forward(self, x):
            return 3

    layer = nn.Linear(2, 3)
    register = parametrize.register_parametrization
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized"):
        register(layer, "nothing", Flat())
    for bad, message in ((Flat, "may not change the shape"), (Wide, "may not change the dtype"),
                         (Number, "A parametrization must return a tensor")):
        with pytest.raises(ValueError, match=message):
            register(layer, "weight", bad())
        assert not parametrize.is_parametrized(layer)
    register(layer, "weight", Flat(), unsafe=True)
    assert layer.weight.shape == (6,)
    register(layer, "bias", parts["Double"]())
    with pytest.raises(ValueError, match="may not change the dtype"):
        register(layer, "bias", Wide())
    with pytest.raises(RuntimeError, match="Flat does not implement right_inverse"):
        layer.weight = torch.ones(6)


# ---------------------------------------------------------------- normalisations


def test_weight_norm_parametrization(torch, nn, parametrize):
    layer = nn.Linear(4, 3)
    before = layer.weight.detach().clone()
    nn.utils.parametrizations.weight_norm(layer)
    assert torch.allclose(layer.weight, before, atol=1e-6)
    parametrization = layer.parametrizations.weight
    assert parametrization.original0.shape == (3, 1)
    with torch.no_grad():
        parametrization.original0.fill_(2.0)
    norms = (layer.weight**2).sum(1)
    assert norms.tolist() == pytest.approx([4.0] * 3, rel=1e-5)


def test_weight_norm_reads_the_hooks_state(torch, nn):
    with pytest.warns(FutureWarning, match=r"`torch.nn.utils.weight_norm` is deprecated"):
        old = nn.utils.weight_norm(nn.Linear(4, 3))
    new = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    assert torch.allclose(new.weight, old.weight)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_hook(torch, nn, dim):
    layer = nn.Linear(4, 3)
    x = torch.randn(2, 4)
    before = layer(x)
    nn.utils.weight_norm(layer, dim=dim)
    assert torch.allclose(layer(x), before, atol=1e-5)
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None
    with pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"):
        nn.utils.weight_norm(layer)
    nn.utils.remove_weight_norm(layer)
    assert torch.allclose(layer(x), before, atol=1e-5)
    assert not layer._forward_pre_hooks
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(layer)


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm(torch, nn, old):
    layer = nn.Linear(5, 4)
    largest = torch.linalg.svdvals(layer.weight.detach())[0].item()
    before = layer.weight.detach().clone()
    utils = nn.utils if old else nn.utils.parametrizations
    utils.spectral_norm(layer, n_power_iterations=50)
    layer(torch.ones(5)).sum().backward()
    assert torch.allclose(layer.weight, before / largest, atol=1e-4)
    layer.eval()
    assert torch.equal(layer(torch.ones(5)), layer(torch.ones(5)))
    if old:
        assert {"weight_orig", "weight_u", "weight_v", "bias"} == set(layer.state_dict())
        assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
        nn.utils.remove_spectral_norm(layer)
        assert set(layer.state_dict()) == {"weight", "bias"}
        assert not layer._state_dict_hooks


def test_spectral_norm_of_transposed_convolutions(nn):
    layer = nn.utils.spectral_norm(nn.ConvTranspose2d(3, 5, 2))
    assert layer.weight_u.shape == (5,)
    assert nn.utils.parametrizations.spectral_norm(
        nn.ConvTranspose2d(3, 5, 2)
    ).parametrizations.weight[0]._u.shape == (5,)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
def test_orthogonal(torch, nn, shape, how):
    layer = nn.Linear(*reversed(shape))
    nn.utils.parametrizations.orthogonal(layer, orthogonal_map=how)
    w = layer.weight if shape[0] >= shape[1] else layer.weight.T
    assert torch.allclose(w.T @ w, torch.eye(min(shape)), atol=1e-5)
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original.grad.abs().sum() > 0


def test_orthogonal_refusals(nn):
    orthogonal = nn.utils.parametrizations.orthogonal
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'w'"):
        orthogonal(nn.Linear(2, 2), "w")
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices"):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        orthogonal(nn.Linear(2, 2), orthogonal_map="wish")


@pytest.mark.parity
def test_spectral_norm_draws_pytorchs_numbers(own):
    torch = pytest.importorskip("torch")
    vectors = []
    for library in (torch, own):
        library.manual_seed(0)
        layer = library.nn.utils.spectral_norm(library.nn.Linear(4, 3))
        vectors.append([layer.weight_u.tolist(), layer.weight_v.tolist()])
    assert vectors[1][0] == pytest.approx(vectors[0][0], abs=1e-6)
    assert vectors[1][1] == pytest.approx(vectors[0][1], abs=1e-6)
