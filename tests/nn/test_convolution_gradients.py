"""torch.nn.grad: gradients of convolutions as functions, and their own gradients."""

import pytest


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_against_autograd(torch, rank):
    F = torch.nn.functional
    x = torch.randn(2, 3, *(5,) * rank, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 3, *(3,) * rank, dtype=torch.float64, requires_grad=True)
    y = getattr(F, f"conv{rank}d")(x, w, padding=1)
    g = torch.randn_like(y)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    by_input = getattr(F.grad, f"conv{rank}d_input")(x.shape, w, g, padding=1)
    by_weight = getattr(F.grad, f"conv{rank}d_weight")(x, w.shape, g, padding=1)
    assert torch.allclose(by_input, gx) and torch.allclose(by_weight, gw)
    # Both are bilinear: the derivative of <by_weight, v> in the input is conv_input of v.
    v = torch.randn_like(w)
    (second,) = torch.autograd.grad((by_weight * v).sum(), x)
    assert torch.allclose(second, getattr(F.grad, f"conv{rank}d_input")(x.shape, v, g, padding=1))


def test_nothing_is_recorded_without_need(torch):
    F = torch.nn.functional
    x, w, g = torch.ones(1, 1, 3), torch.ones(1, 1, 1), torch.ones(1, 1, 3)
    assert not F.grad.conv1d_weight(x, w.shape, g).requires_grad
    with torch.no_grad():
        assert not F.grad.conv1d_weight(x.requires_grad_(), w.shape, g).requires_grad
