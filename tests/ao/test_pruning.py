"""torch.ao.pruning: sparsifiers and their schedules."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning import (
    BaseSparsifier, CubicSL, FakeSparsity, LambdaSL, NearlyDiagonalSparsifier, WeightNormSparsifier,
    fqn_to_module, get_arg_info_from_tensor_fqn, module_to_fqn,
)
from flambeau.nn.utils.parametrize import is_parametrized


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 4)))


def test_modules_by_name():
    model = build()
    assert module_to_fqn(model, model) == ""
    assert module_to_fqn(model, model[2][0]) == "2.0"
    assert module_to_fqn(model, nn.Linear(1, 1)) is None
    assert fqn_to_module(model, "2.0.weight") is model[2][0].weight
    assert fqn_to_module(model, "a.b") is None
    assert get_arg_info_from_tensor_fqn(model, "0.bias") == {
        "module_fqn": "0", "module": model[0], "tensor_name": "bias", "tensor_fqn": "0.bias"}


def test_the_base_is_abstract():
    with pytest.raises(TypeError):
        BaseSparsifier()


@pytest.mark.parametrize("level, zeros, share", [
    (0.5, None, 0.5), (1.0, 2, 0.5), (0.5, 1, 0.125), (0.0, None, 0.0), (1.0, None, 1.0),
])
def test_shares_of_zeros(level, zeros, share):
    model = nn.Sequential(nn.Linear(8, 8))
    sparsifier = WeightNormSparsifier(level, (1, 4), zeros)
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert (model[0].weight == 0).float().mean().item() == share
    sparsifier.squash_mask()
    assert not is_parametrized(model[0])
    assert (model[0].weight == 0).float().mean().item() == share


def test_the_smallest_blocks_go():
    model = nn.Sequential(nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, -9, 2, 3], [5, 6, -0.5, 0.1]]))
    sparsifier = WeightNormSparsifier(0.5, (1, 2), norm=1)
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert model[0].weight.tolist() == [[1, -9, 0, 0], [5, 6, 0, 0]]


def test_blocks_beyond_the_edge():
    model = nn.Sequential(nn.Linear(6, 3))
    sparsifier = WeightNormSparsifier(1.0, (2, 4), 3)
    sparsifier.prepare(model, None)
    sparsifier.step()
    mask = model[0].parametrizations.weight[0].mask
    assert mask.shape == (3, 6)
    assert [(mask[r:r + 2, c:c + 4] == 0).sum().item() for r in (0, 2) for c in (0, 4)] \
        == [3, 3, 3, 2]


def test_what_is_refused():
    model = nn.Sequential(nn.Linear(4, 4))
    with pytest.raises(NotImplementedError, match="L-3 is not yet"):
        WeightNormSparsifier(norm=3)
    with pytest.raises(AssertionError, match="tensor_fqn is a required"):
        WeightNormSparsifier().prepare(model, [{"sparsity_level": 1}])
    with pytest.raises(AssertionError, match="expected them to agree"):
        WeightNormSparsifier().prepare(model, [{"tensor_fqn": "0.weight", "tensor_name": "bias"}])
    sparsifier = WeightNormSparsifier(zeros_per_block=9)
    sparsifier.prepare(model, None)
    with pytest.raises(ValueError, match="cannot be more than"):
        sparsifier.step()
    with pytest.raises(TypeError, match="is not an instance of torch.ao.pruning.BaseSparsifier"):
        LambdaSL(type("Other", (), {"groups": []})(), lambda epoch: 1)


def test_bands():
    model = nn.Sequential(nn.Linear(4, 4))
    sparsifier = NearlyDiagonalSparsifier(3)
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert torch.equal(model[0].weight != 0, torch.ones(4, 4).tril(1).triu(-1).bool())
    sparsifier.groups[0]["nearliness"] = 2
    with pytest.raises(ValueError, match="odd number"):
        sparsifier.step()


def test_training_keeps_zeros():
    model = build()
    sparsifier = WeightNormSparsifier(0.5)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight", "sparsity_level": 0.25}])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.randn(5, 8)).square().mean().backward()
        optimizer.step()
        sparsifier.step()
    sparsifier.squash_mask(("sparsity_level",), {"0": ("zeros_per_block",)})
    assert (model[0].weight == 0).sum() == 16
    assert model[0].sparse_params == {"sparsity_level": 0.25, "zeros_per_block": 4}


def test_states():
    first, second = build(), build()
    sparsifier, other = WeightNormSparsifier(0.5), WeightNormSparsifier(0.1)
    sparsifier.prepare(first, [{"tensor_fqn": "0.weight"}])
    other.prepare(second, None)
    sparsifier.step()
    state = copy.deepcopy(sparsifier.state_dict())
    assert "module" not in state["groups"][0]
    other.load_state_dict(state)
    masks = [m[0].parametrizations.weight[0].mask for m in (first, second)]
    assert torch.equal(*masks)
    assert first.state_dict().keys() == second.state_dict().keys() - {
        "2.0.parametrizations.weight.original"} | {"2.0.weight"}
    assert repr(other).startswith("WeightNormSparsifier (\n\tGroup 0\n\t    module: ")


def test_conversion():
    class Masked(nn.Linear):
        @classmethod
        def from_dense(cls, layer):
            return cls(layer.in_features, layer.out_features)

    model = build()
    sparsifier = WeightNormSparsifier()
    sparsifier.prepare(model, [{"tensor_fqn": "2.0.weight"}])
    converted = sparsifier.convert(model, {nn.Linear: Masked})
    assert isinstance(converted[2][0], Masked)
    assert type(converted[0]) is nn.Linear
    assert isinstance(model[2][0].parametrizations.weight[0], FakeSparsity)
    with pytest.raises(NotImplementedError):
        sparsifier.convert(model)


def test_schedules():
    sparsifier = WeightNormSparsifier(0.8)
    sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
    scheduler = CubicSL(sparsifier, 0.1, 1, 1, 2, initially_zero=True)
    levels = []
    for _ in range(4):
        levels += scheduler.get_last_sl()
        sparsifier.step()
        scheduler.step()
    assert levels == pytest.approx([0, 0.1, 0.7125, 0.8])
    with pytest.warns(UserWarning, match="get_last_sl"):
        scheduler.get_sl()
    with pytest.raises(ValueError, match="variable of length 1, but got 2"):
        CubicSL(sparsifier, [0.1, 0.2])


def test_the_sparsifier_steps_first():
    sparsifier = WeightNormSparsifier(0.8)
    sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
    scheduler = LambdaSL(sparsifier, lambda epoch: 1 / (1 + epoch), verbose=False)
    with pytest.warns(UserWarning, match=r"Detected call of `scheduler.step\(\)` before"):
        scheduler.step()
    assert scheduler.get_last_sl() == [0.4]
    state = scheduler.state_dict()
    assert "sparsifier" not in state
    scheduler.load_state_dict(state | {"last_epoch": 7})
    assert scheduler.last_epoch == 7
