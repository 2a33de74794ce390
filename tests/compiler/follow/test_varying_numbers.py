"""Numbers that are others in each call: inputs of programs, not a program each."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import flambeau as torch

CHANCE = random.Random(0)


def mixed(x: Any, y: Any, share: float) -> Any:
    return (share * x + (1 - share) * y).square().sum()


def scaled(x: Any, y: Any, share: float) -> Any:
    return (x * 2).sum() / (share + 1) - share


def of_a_tensor(x: Any, y: Any, share: float) -> Any:
    return (x * torch.tensor(share) + torch.full((3,), share)).sum() + y


def filled(x: Any, y: Any, share: float) -> Any:
    z = torch.empty(3)
    z.fill_(share)
    return x * z + y * 2


def in_place(x: Any, y: Any, share: float) -> Any:
    z = x + 1
    z *= share
    return z - y


def by_functions(x: Any, y: Any, share: float) -> Any:
    return torch.sub(torch.add(x, share), y).add(share).div(share + 1)


@pytest.mark.parametrize("formula", [by_functions, mixed, scaled, of_a_tensor, filled, in_place])
def test_a_number_that_varies_is_an_input(formula: Any) -> None:
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def step(x, y):
        share = CHANCE.random()
        loss = formula(x * w, y, share)
        loss.sum().backward()
        return loss, share

    def eager(x, y, share):
        loss = formula(x * v, y, share)
        loss.sum().backward()
        return loss

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            x, y = torch.randn(3), torch.randn(3)
            loss, share = followed(x, y)
            wanted = eager(x, y, share)
            torch.testing.assert_close(loss, wanted)
            assert loss.dtype == wanted.dtype
            torch.testing.assert_close(w.grad, v.grad)
    assert "is followed" in followed.explain()
    assert len(followed._fallback.followed.programs) <= 8
