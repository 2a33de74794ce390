"""Rounded quotients of half precision: each step of the quotient is rounded first."""

from __future__ import annotations

import pytest


def draw(torch, kind):
    a = (torch.randn(3000) * 50).to(getattr(torch, kind))
    b = (torch.randn(3000) * 3).to(a.dtype)
    return a, torch.where(b == 0, 1, b)


def floor_in_steps(torch, a, b):
    rest = torch.fmod(a, b)
    quotient = (a - rest) / b
    quotient = torch.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    down = torch.floor(quotient)
    return torch.where(quotient - down > 0.5, down + 1, down)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_steps_of_quotients_are_rounded(torch, kind):
    a, b = draw(torch, kind)
    for x, y in ((a, b), (a[::3], b[::3]), (a[:5], b[:5]), (a[:1], b), (a[:4, None], b[:7])):
        assert torch.equal(torch.div(x, y, rounding_mode="trunc"), torch.trunc(x / y))
        expected = floor_in_steps(torch, x, y)
        assert torch.equal(torch.div(x, y, rounding_mode="floor"), expected)
        assert torch.equal(x // y, expected)
    c = a.clone()
    c //= b
    assert torch.equal(c, floor_in_steps(torch, a, b))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_quotients_by_numbers_are_rounded_once(torch, kind):
    a, b = draw(torch, kind)
    for divisor in (0.7, b[0], b[:1]):
        number = divisor if isinstance(divisor, float) else divisor.float()
        expected = torch.div(a.float(), number, rounding_mode="trunc").to(a.dtype)
        assert torch.equal(torch.div(a, divisor, rounding_mode="trunc"), expected)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_special_quotients(torch, kind):
    values = torch.tensor([0.0, -0.0, 2.0, -3.0, float("inf"), float("nan")],
                          dtype=getattr(torch, kind))
    for mode in ("floor", "trunc"):
        y = torch.div(values[:, None], values, rounding_mode=mode).float()
        expected = torch.div(values.float()[:, None], values.float(), rounding_mode=mode)
        torch.testing.assert_close(y, expected, equal_nan=True, rtol=0, atol=0)
        assert torch.equal(torch.signbit(y) & ~y.isnan(), torch.signbit(expected) & ~y.isnan())
