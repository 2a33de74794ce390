"""How a program's results are compared with those of the recorded call."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.validation.self_check import agree, sum_squared_differences, sum_squares

from ..step_comparison import runs

SIZES = (3, 5000)  # compared at once, and after a quick look


@pytest.mark.parametrize("size", SIZES)
def test_what_rounding_explains_agrees(size: int) -> None:
    wanted = np.linspace(-2, 2, size, dtype=np.float32)
    assert agree(wanted * np.float32(1 + 1e-4), wanted)
    assert agree(wanted + np.float32(1e-3), wanted)
    assert not agree(wanted + np.float32(3e-2), wanted)


@pytest.mark.parametrize("size", SIZES)
def test_one_wrong_element_is_seen(size: int) -> None:
    wanted = np.ones(size, np.float32)
    actual = wanted.copy()
    actual[-1] = 1.1
    assert not agree(actual, wanted)
    assert agree(actual, wanted, scale=100.0)  # small beside the greatest there is


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
def test_what_is_not_finite_must_be_the_same(size: int, value: float) -> None:
    wanted = np.ones(size, np.float32)
    wanted[1] = value
    assert agree(wanted.copy(), wanted)
    assert not agree(np.ones(size, np.float32), wanted)
    assert not agree(wanted, np.ones(size, np.float32))
    assert not agree(-wanted, wanted)


def test_distances_do_not_overflow() -> None:
    a, b = np.full(9, 1e30, np.float32), np.zeros(9, np.float32)
    assert sum_squared_differences(a, b) == pytest.approx(9e60, rel=1e-5)
    assert sum_squared_differences(b, b) == 0
    half = np.full(9, 300, np.float16)
    assert sum_squared_differences(half, -half) == pytest.approx(9 * 600**2)


def test_sums_that_cancel_are_no_reason_to_stay_eager():
    """A bias before a normalisation has no gradient but rounding, and a normalised sum no value."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16, elementwise_affine=False))
    fast = torch.compile(lambda x: net(x).sum(), mode="now")
    for _ in range(5):
        fast(torch.randn(8, 6))
    assert sum(program.calls for program in fast._programs) >= 2


def test_distances_look_past_what_is_not_finite_on_both_sides():
    nan, inf = float("nan"), float("inf")
    a, b = (np.array([1.0, nan, inf, last], np.float32) for last in (2.0, 5.0))
    assert sum_squared_differences(a, b) == 9.0
    assert not sum_squared_differences(a, np.array([1.0, 0.0, inf, 2.0], np.float32)) <= 1e9
    assert not sum_squared_differences(a, np.array([1.0, nan, -inf, 2.0], np.float32)) <= 1e9
    assert sum_squares(a) == 5.0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_converged_step_is_compiled_unless_its_noise_becomes_a_step(optimizer: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    rule = optimizer(net.parameters(), 0.1)
    x = torch.randn(64, 16)
    y = net(x).detach()

    def step(x: Any, y: Any) -> Any:
        rule.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        rule.step()
        return loss

    fast = torch.compile(step, mode="now")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(float(fast(x, y)) < 1e-12 for _ in range(6))
    assert (runs(fast) > 3) is (optimizer is torch.optim.SGD)
