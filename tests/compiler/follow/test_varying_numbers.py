"""Numbers that are others in each call: inputs of programs, not a program each."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau.native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS

CHANCE = random.Random(0)
MANY = MAX_NUMPY_POINTWISE_ELEMENTS // 3 + 1  # rows of three: a large sum


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


def with_a_factor(x: Any, y: Any, share: float) -> Any:
    return torch.add(x, y, alpha=share).sub(y, alpha=share + 1) + torch.rsub(x, y, alpha=share)


def in_place_with_a_factor(x: Any, y: Any, share: float) -> Any:
    return (x * 2).add_(y, alpha=-share).sub_(x, alpha=share)


def of_many(x: Any, y: Any, share: float) -> Any:
    return torch.add(x.expand(MANY, 3), y, alpha=share)[0]


def compared(x: Any, y: Any, share: float) -> Any:
    mask = (x > share - 0.5) | x.le(share / 2)
    return torch.where(mask, x, y) * torch.ne(y, share)


@pytest.mark.parametrize("formula", [
    by_functions, mixed, scaled, of_a_tensor, filled, in_place, with_a_factor,
    in_place_with_a_factor, of_many, compared,
])
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


def test_the_temperature_of_gumbel_softmax_is_an_input() -> None:
    temperature = [1.0]
    w = torch.ones(4, 5, requires_grad=True)

    def step() -> Any:
        temperature[0] = float(f"{temperature[0] * 0.99}")  # keeps Python
        y = torch.nn.functional.gumbel_softmax(w * 2, temperature[0])
        y.square().sum().backward()
        return y

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    torch.manual_seed(0)
    actual = [followed() for _ in range(20)]
    temperature[0] = 1.0
    torch.manual_seed(0)
    for y in actual:
        torch.testing.assert_close(y, step())
    assert len(followed._fallback.followed.programs) <= 8
