"""Clipping of gradients; parameters as a vector; fusing; skip_init."""

from __future__ import annotations

import math

import pytest


@pytest.fixture
def weights(torch):
    """Two tensors with gradients (3, 0) and (4,), and one without: norm 5."""
    parameters = [torch.ones(n, requires_grad=True) for n in (2, 1, 3)]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    return parameters


@pytest.mark.parametrize(("order", "norm"), [(2.0, 5.0), (1, 7.0), (math.inf, 4.0), (0.0, 2.0)])
def test_norm(nn, weights, order, norm):
    assert nn.utils.clip_grad_norm_(weights, 1e9, norm_type=order).item() == pytest.approx(norm)
    assert weights[0].grad.tolist() == [3.0, 0.0]


def test_clipping(nn, weights):
    assert nn.utils.clip_grad_norm_(weights, 1.0).item() == 5.0
    assert weights[0].grad.tolist() == pytest.approx([0.6, 0.0])
    assert weights[1].grad.tolist() == pytest.approx([0.8])
    assert weights[2].grad is None


def test_one_tensor_and_generators(torch, nn, weights):
    assert nn.utils.clip_grad_norm_(weights[1], 1.0).item() == 4.0
    assert nn.utils.clip_grad_norm_((w for w in weights), 10.0).item() > 3
    assert nn.utils.clip_grad_norm_([weights[2]], 1.0).item() == 0.0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        nn.utils.clip_grad_norm_((w for w in ()), 1.0)


def test_total_norm_and_clipping_apart(torch, nn, weights):
    total = nn.utils.get_total_norm([w.grad for w in weights[:2]])
    assert total.item() == 5.0
    nn.utils.clip_grads_with_norm_(weights, 2.5, total)
    assert weights[1].grad.tolist() == pytest.approx([2.0])


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_non_finite_norms(nn, weights, bad):
    weights[0].grad[0] = bad
    with pytest.raises(RuntimeError, match=r"total norm of order 2.0 .* is non-finite"):
        nn.utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)
    nn.utils.clip_grad_norm_(weights, 1.0)
    assert math.isnan(weights[0].grad[0].item())


def test_clip_value(nn, weights):
    nn.utils.clip_grad_value_(weights, 3.5)
    assert weights[1].grad.tolist() == [3.5]
    weights[0].grad.mul_(-1)
    nn.utils.clip_grad_value_(weights[0], 1)
    assert weights[0].grad.tolist() == [-1.0, 0.0]


def test_old_name_warns(nn, weights):
    with pytest.warns(FutureWarning, match=r"`torch.nn.utils.clip_grad_norm` is now deprecated"):
        nn.utils.clip_grad_norm(weights, 1.0)


def test_parameters_to_vector_and_back(torch, nn):
    layer = nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.tolist() == [*layer.weight.reshape(-1).tolist(), *layer.bias.tolist()]
    vector.sum().backward()
    assert layer.bias.grad.tolist() == [1.0, 1.0]
    nn.utils.vector_to_parameters(torch.arange(8.0), layer.parameters())
    assert layer.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert layer.bias.tolist() == [6.0, 7.0]
    with pytest.raises(TypeError, match=r"expected torch.Tensor, but got: list"):
        nn.utils.vector_to_parameters([], layer.parameters())


def test_fused_batch_norm(torch, nn):
    bn = nn.BatchNorm2d(3)
    bn(torch.randn(8, 3, 4, 4) * 2 + 1)
    with torch.no_grad():
        bn.weight.uniform_(0.5, 2.0)
        bn.bias.normal_()
    x = torch.randn(2, 2, 5, 5)
    for conv, transpose in ((nn.Conv2d(2, 3, 3, bias=False), False),
                            (nn.ConvTranspose2d(2, 3, 3), True)):
        model = nn.Sequential(conv, bn).eval()
        fused = nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
        assert torch.allclose(fused(x), model(x), atol=1e-5)
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(2, 3, 3), bn)


def test_fused_linear(torch, nn):
    linear, bn = nn.Linear(4, 3).eval(), nn.BatchNorm1d(3)
    bn(torch.randn(8, 3) * 2 + 1)
    bn.eval()
    x = torch.randn(5, 4)
    fused = nn.utils.fuse_linear_bn_eval(linear, bn)
    assert torch.allclose(fused(x), bn(linear(x)), atol=1e-5)
    assert isinstance(fused.bias, nn.Parameter)


def test_skip_init(torch, nn):
    state = torch.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, 2, dtype=torch.float64)
    assert torch.equal(torch.get_rng_state(), state)
    assert layer.weight.shape == (2, 3)
    assert layer.weight.dtype == torch.float64
    assert not layer.weight.is_meta
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(dict)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)


@pytest.mark.parametrize("size", [3, 20_000])
def test_large_and_strided_gradients(torch, nn, size):
    w = torch.ones(2, size, requires_grad=True)
    w.grad = torch.full((size, 2), 3.0).t()
    nn.utils.clip_grad_value_(w, 2.0)
    assert nn.utils.clip_grad_norm_(w, 1.0).item() == pytest.approx(2 * (2 * size) ** 0.5)
    assert w.grad.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_mixed_dtypes(torch, nn):
    parameters = [torch.ones(1, requires_grad=True, dtype=t)
                  for t in (torch.float16, torch.float64)]
    for w in parameters:
        w.grad = w.detach() * 3
    assert nn.utils.clip_grad_norm_(parameters, 1.0).item() == pytest.approx(18**0.5, rel=1e-3)
    nn.utils.clip_grad_value_(parameters, 0.5)
    assert [w.grad.item() for w in parameters] == [0.5, 0.5]
    assert parameters[0].grad.dtype == torch.float16
