"""Reductions: the dtype of `out` is that of the computation, no axes, nothing to reduce."""

from __future__ import annotations

import math

import pytest


@pytest.mark.parametrize("name", ["sum", "mean", "nansum"])
def test_reduction_is_computed_in_the_dtype_of_out(torch, name):
    x = torch.full((1000,), 0.1, dtype=torch.float16)
    out = torch.empty((), dtype=torch.float64)
    getattr(torch, name)(x, dim=0, out=out)
    count = 1 if name == "mean" else 1000
    assert out.item() == pytest.approx(x[0].item() * count, rel=1e-12)


def test_reductions_of_another_dtype_into_out(torch):
    x = torch.ones(3, dtype=torch.bfloat16)
    assert torch.prod(x, 0, out=torch.empty((), dtype=torch.int64)).item() == 1
    assert torch.sum(x, 0, out=torch.empty((), dtype=torch.bool)).item() is True
    bits = torch.ones(3, dtype=torch.bool)
    y = torch.cumsum(bits, 0, out=torch.empty(3, dtype=torch.float16))
    assert y.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["all", "any"])
def test_no_axes_test_each_element(torch, name):
    x = torch.tensor([[1.0, 0.0]])
    assert getattr(torch, name)(x, dim=()).tolist() == [[True, False]]
    out = torch.empty((), dtype=torch.bool)
    assert getattr(torch, name)(torch.ones(2, dtype=torch.uint8), 0, out=out).item() is True


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median_of_nothing(torch, name):
    assert math.isnan(getattr(torch, name)(torch.empty(0)).item())
    assert getattr(torch, name)(torch.empty(0, dtype=torch.uint8)).item() == 0


@pytest.mark.parametrize("function", [
    lambda x: x.mean(), lambda x: x.mean(0), lambda x: x.clone().zero_(), lambda x: x**0,
    lambda x: x.clone().fill_(2.0),
])
def test_gradient_can_be_written(torch, function):
    x = torch.ones(3, 2, requires_grad=True)
    (g,) = torch.autograd.grad(function(x).sum(), x)
    g.mul_(2)
    assert g.stride() == (2, 1)
