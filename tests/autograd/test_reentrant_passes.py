"""Backward passes within backward passes, deeper than Python's stack."""

from __future__ import annotations

import pytest


def _deep(torch, end=None):
    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x < 0:
                if end is not None:
                    raise end
                return g
            with torch.enable_grad():
                Deep.apply(ctx.x).sum().backward()
            return g * 2

    return Deep


def test_five_hundred_passes(torch):
    x = torch.tensor(500.0, requires_grad=True)
    _deep(torch).apply(x).sum().backward()
    assert x.grad == 2
    assert torch.is_grad_enabled()


def test_an_error_passes_through_all(torch):
    x = torch.tensor(200.0, requires_grad=True)
    with pytest.raises(ValueError, match="at the bottom"):
        _deep(torch, ValueError("at the bottom")).apply(x).sum().backward()
    assert torch.is_grad_enabled()
    (x * 2).backward()
    assert x.grad == 2
