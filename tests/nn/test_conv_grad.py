"""torch.nn.grad: gradients of convolutions as functions."""

from __future__ import annotations

import importlib
import warnings

import pytest


@pytest.mark.parametrize("n", [1, 2, 3])
def test_same_as_backward(torch, n):
    module = importlib.import_module(f"{torch.__name__}.nn.grad")
    conv = getattr(torch.nn.functional, f"conv{n}d")
    x = torch.randn(2, 4, *(6, 5, 4)[:n], requires_grad=True)
    w = torch.randn(6, 2, *(3, 2, 2)[:n], requires_grad=True)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    y = conv(x, w, **options)
    g = torch.randn(*y.shape)
    y.backward(g)
    by_input = getattr(module, f"conv{n}d_input")(x.shape, w, g, **options)
    by_weight = getattr(module, f"conv{n}d_weight")(x, w.shape, g, **options)
    assert torch.allclose(by_input, x.grad, atol=1e-5)
    assert torch.allclose(by_weight, w.grad, atol=1e-5)


def test_bias_beside_an_input_without_channels_gets_zeros(torch, nn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is initialized
        conv = nn.Conv2d(0, 4, 2, stride=2)
    y = conv(torch.randn(2, 0, 6, 6))
    y.backward(torch.ones_like(y))
    assert conv.bias.grad.tolist() == [0, 0, 0, 0]
