"""torch.ops.aten.*_backward of activations: the slope times a cotangent."""

from __future__ import annotations

import pytest

SLOPES = {
    "silu_backward": lambda F: F.silu, "mish_backward": lambda F: F.mish,
    "hardswish_backward": lambda F: F.hardswish, "gelu_backward": lambda F: F.gelu,
}


@pytest.mark.parametrize("name", SLOPES)
def test_of_the_input(torch, name):
    x, g = torch.randn(9, requires_grad=True), torch.randn(9)
    y = SLOPES[name](torch.nn.functional)(x)
    expected, = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(getattr(torch.ops.aten, name)(g, x.detach()), expected)


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_of_the_output(torch, name):
    x, g = torch.randn(9, requires_grad=True), torch.randn(9)
    y = getattr(torch, name)(x)
    expected, = torch.autograd.grad(y, x, g, retain_graph=True)
    actual = getattr(torch.ops.aten, f"{name}_backward").default(g, y.detach())
    torch.testing.assert_close(actual, expected)


def test_of_thresholds(torch):
    g, x = torch.ones(3), torch.tensor([-1.0, 0.5, 2.0])
    assert torch.ops.aten.threshold_backward(g, x, 0.5).tolist() == [0.0, 0.0, 1.0]
