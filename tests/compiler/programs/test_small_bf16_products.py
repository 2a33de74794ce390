"""Products of few rows of float32 numbers in bfloat16: the panels are narrower than a register."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn


@pytest.mark.filterwarnings("error:.*stays eager")
@pytest.mark.parametrize("widths", [(4, 8, 1), (3, 8, 8), (5, 7, 3)])
def test_a_model_under_autocast(widths):
    torch.manual_seed(0)
    inner, middle, outer = widths
    net = nn.Sequential(nn.Linear(inner, middle), nn.Tanh(), nn.Linear(middle, outer))
    step = torch.compile(net, mode="now")
    for _ in range(4):
        x = torch.randn(3, inner)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, expected = step(x), net(x)
        assert y.dtype == expected.dtype
        torch.testing.assert_close(y, expected, rtol=0.02, atol=0.02)
