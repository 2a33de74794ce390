"""Pooling and normalisation: ties, what is written in place, layers in chains, half precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.native.runtime.background_jit import KernelPolicy


def test_ties_go_to_the_first_maximum():
    x = torch.zeros(1, 1, 4, 4, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad[0, 0].tolist() == [[1, 0, 1, 0], [0] * 4, [1, 0, 1, 0], [0] * 4]
    x = torch.tensor([[[[0.0, 5.0], [5.0, 1.0]]]], requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad[0, 0].tolist() == [[0, 1], [0, 0]]


def test_indices_agree_with_the_gradient():
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 3, (2, 3, 7, 7)) * 1.0)
    x.requires_grad_()
    y, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    y.sum().backward()
    counts = np.zeros((6, 49))
    np.add.at(counts, (np.arange(6)[:, None], places.numpy().reshape(6, -1)), 1)
    np.testing.assert_array_equal(x.grad.numpy().reshape(6, 49), counts)


def test_nan_is_the_maximum():
    y, places = F.max_pool2d(
        torch.tensor([[[[1.0, float("nan")], [3.0, 2.0]]]]), 2, return_indices=True
    )
    assert y.isnan().all()
    assert places.item() == 1


def test_second_derivative_of_max_pool():
    x = torch.rand(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad((F.max_pool2d(x, 2) ** 3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    largest = (g != 0).to(x.dtype)
    np.testing.assert_allclose(h.numpy(), (6 * x * largest).detach().numpy())


def test_windows_beyond_the_edge_count_what_is_there():
    x = torch.ones(1, 1, 5)
    assert F.avg_pool1d(x, 2, 2, ceil_mode=True).tolist() == [[[1, 1, 1]]]
    assert F.avg_pool1d(x, 3, 2, 1).tolist() == [[[pytest.approx(2 / 3), 1, pytest.approx(2 / 3)]]]
    assert F.avg_pool1d(x, 3, 2, 1, count_include_pad=False).tolist() == [[[1, 1, 1]]]


def test_running_statistics_move():
    x = torch.tensor([[1.0], [3.0]])
    mean, var = torch.zeros(1), torch.ones(1)
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.item() == 1
    assert var.item() == 1.5
    y = F.batch_norm(x, mean, var, eps=0.0)
    np.testing.assert_allclose(y.numpy(), (x.numpy() - 1) / np.sqrt(1.5), rtol=1e-6)


@pytest.mark.parametrize("layer", [
    lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.layer_norm(x, (5,)),
    lambda x: F.group_norm(x, 2), lambda x: F.instance_norm(x),
])
def test_result_may_be_overwritten(layer):
    """The derivative needs the input alone, so that an in-place activation may follow."""
    x = torch.rand(2, 4, 5, dtype=torch.float64, requires_grad=True)
    layer(x).relu_().sum().backward()
    other = x.detach().clone().requires_grad_()
    layer(other).clamp(min=0).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), atol=1e-12)


def test_half_precision_with_float_weights():
    x = torch.rand(4, 6).half().requires_grad_()
    weight = torch.ones(6, requires_grad=True)
    F.layer_norm(x, (6,), weight).sum().backward()
    assert x.grad.dtype is torch.float16
    assert weight.grad.dtype is torch.float32


def test_single_values_have_no_variance():
    with pytest.raises(ValueError, match="more than 1 value per channel when training"):
        F.batch_norm(torch.rand(1, 3), None, None, training=True)
    with pytest.raises(ValueError, match="more than 1 spatial element when training"):
        F.instance_norm(torch.rand(2, 3, 1))


@pytest.mark.parametrize("pool", [F.max_pool2d, F.adaptive_max_pool2d])
def test_of_several_nans_the_last_is_the_maximum_and_takes_the_gradient(monkeypatch, pool):
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    x = torch.tensor([[[1.0, math.nan, 2.0, math.nan]] * 2], requires_grad=True)
    y, indices = pool(x, (2, 4) if pool is F.max_pool2d else 1, return_indices=True)
    assert indices.flatten().tolist() == [7]
    y.sum().backward()
    assert x.grad.flatten().tolist() == [0, 0, 0, 0, 0, 0, 0, 1]


def test_windows_that_lie_in_the_padding_have_no_maximum(monkeypatch):
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    x = torch.tensor([[3.0]], requires_grad=True)
    y = F.max_pool1d(x, 2, stride=1, padding=1, dilation=2)
    assert y.tolist() == [[-math.inf]]
    y.sum().backward()
    assert x.grad.tolist() == [[0.0]]
