"""Compiled functions in forward mode: tangents are those of eager calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

forward_ad = torch.autograd.forward_ad
WAYS = {"proved": False, "followed": True}


def _compile(way: str) -> Callable[[Any], Any]:
    calls: list[int] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        if WAYS[way]:
            calls.append(len(calls))
        return (x * x).sin()

    compiled = torch.compile(step, options={"mode": "now", "follow": WAYS[way]})
    for _ in range(4):
        compiled(torch.ones(2))
    return compiled


@pytest.mark.parametrize("way", WAYS)
def test_jvp_of_a_compiled_function(way: str) -> None:
    x = torch.tensor([0.5, 2.0])
    _, tangent = torch.func.jvp(_compile(way), (x,), (torch.ones(2),))
    torch.testing.assert_close(tangent, 2 * x * (x * x).cos())


@pytest.mark.parametrize("way", WAYS)
def test_dual_numbers_as_arguments(way: str) -> None:
    step, x = _compile(way), torch.tensor([0.5, 2.0])
    with forward_ad.dual_level():
        result = step(forward_ad.make_dual(x, torch.ones(2)))
        tangent = forward_ad.unpack_dual(result).tangent
    torch.testing.assert_close(tangent, 2 * x * (x * x).cos())
    torch.testing.assert_close(step(x), (x * x).sin())
