"""Pruning by masks."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def prune(torch):
    return importlib.import_module(f"{torch.__name__}.nn.utils.prune")


@pytest.fixture
def layer(torch, nn):
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, -5.0, 2.0], [-6.0, 3.0, -4.0]]))
    return linear


def test_l1(torch, prune, layer):
    weight = layer.weight
    assert prune.l1_unstructured(layer, "weight", 2) is layer
    assert layer.weight.tolist() == [[0.0, -5.0, 0.0], [-6.0, 3.0, -4.0]]
    assert layer.weight_orig is weight
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    assert [n for n, _ in layer.named_buffers()] == ["weight_mask"]
    assert prune.is_pruned(layer)
    layer(torch.ones(3)).sum().backward()
    assert weight.grad.tolist() == [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]


def test_pruning_again_and_removing(prune, layer):
    weight = layer.weight
    prune.l1_unstructured(layer, "weight", 2)
    prune.l1_unstructured(layer, "weight", 0.5)
    assert layer.weight.tolist() == [[0.0, -5.0, 0.0], [-6.0, 0.0, 0.0]]
    assert len(layer._forward_pre_hooks) == 1
    prune.remove(layer, "weight")
    assert layer.weight is weight
    assert weight.tolist() == [[0.0, -5.0, 0.0], [-6.0, 0.0, 0.0]]
    assert not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(layer, "weight")


def test_structured(prune, layer):
    prune.ln_structured(layer, "weight", 1, n=2, dim=1)
    assert layer.weight.tolist() == [[1.0, -5.0, 0.0], [-6.0, 3.0, 0.0]]
    prune.ln_structured(layer, "weight", 1, n=1, dim=0)
    assert layer.weight.tolist() == [[0.0, 0.0, 0.0], [-6.0, 3.0, 0.0]]


def test_random(prune, layer):
    prune.random_unstructured(layer, "weight", 0.5)
    assert (layer.weight_mask == 0).sum() == 3
    prune.remove(layer, "weight")
    prune.random_structured(layer, "weight", 1, dim=0)
    assert sorted(layer.weight_mask.sum(1).tolist()) == [0.0, 3.0]


def test_masks_and_identity(torch, prune, layer):
    prune.identity(layer, "bias")
    assert layer.bias_mask.tolist() == [1.0, 1.0]
    prune.custom_from_mask(layer, "bias", torch.tensor([0.0, 1.0]))
    assert layer.bias[0] == 0
    assert prune.L1Unstructured(1).prune(torch.tensor([1.0, 2.0])).tolist() == [0.0, 2.0]


def test_global(nn, prune, layer):
    other = nn.Linear(1, 1, bias=False)
    other.weight.data.fill_(1.5)
    both = [(layer, "weight"), (other, "weight")]
    prune.global_unstructured(both, prune.L1Unstructured, amount=2)
    assert layer.weight.tolist() == [[0.0, -5.0, 2.0], [-6.0, 3.0, -4.0]]
    assert other.weight.item() == 0.0


def test_refusals(torch, prune, layer):
    with pytest.raises(ValueError, match=r"amount=1\.5 should either be a float in the range"):
        prune.l1_unstructured(layer, "weight", 1.5)
    with pytest.raises(TypeError, match="Invalid type for amount: x"):
        prune.l1_unstructured(layer, "weight", "x")
    with pytest.raises(ValueError, match="amount=7 should be smaller than the number of"):
        prune.l1_unstructured(layer, "weight", 7)
    assert isinstance(layer.weight, torch.nn.Parameter)
    with pytest.raises(ValueError, match="can only be applied to multidimensional tensors"):
        prune.random_structured(layer, "bias", 1, 0)
