"""A followed step that calls the same functions in each call is recorded once, and has one program.

A function that library code calls with constants of its own, or in place, is no reason for another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

F = torch.nn.functional
MASK = torch.tensor([[True, False, True, False]] * 3)
LABELS, ROWS = torch.tensor([0, 3, 1]), torch.tensor([2, 0, 2])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "masked_fill": lambda y: y.masked_fill(MASK, -1e9),
    "masked_fill with minus infinity": lambda y: y.masked_fill(MASK, float("-inf")).softmax(-1),
    "masked_fill_": lambda y: (y * 1).masked_fill_(MASK, 0.5),
    "label smoothing": lambda y: F.cross_entropy(y, LABELS, label_smoothing=0.1),
    "cosine_similarity": lambda y: F.cosine_similarity(y, y * 2 + 1),
    "normalize": lambda y: F.normalize(y),
    "std": lambda y: y.std(0),
    "norm": lambda y: y.norm(),
    "leaky_relu in place": lambda y: F.leaky_relu(y * 1, 0.2, inplace=True),
    "hardtanh in place": lambda y: F.hardtanh(y * 1, -0.5, 0.5, inplace=True),
    "dropout in place": lambda y: F.dropout(y * 1, 0.3, inplace=True),
    "a causal mask": lambda y: (y.T @ y).masked_fill(torch.ones(4, 4).tril() == 0, -1e9),
    "where with a number": lambda y: torch.where(MASK, y, 0.0),
    "gathered rows": lambda y: y[ROWS],
    "attention": lambda y: F.scaled_dot_product_attention(*[y[None]] * 3, is_causal=True),
    "noise": lambda y: y + torch.randn_like(y),
}


def _make_step(function: Callable[[Any], Any]) -> tuple[Callable[[], Any], Any]:
    torch.manual_seed(0)
    weight, x = torch.randn(4, 4, requires_grad=True), torch.randn(3, 4)
    ticks = itertools.cycle("a")

    def step() -> Any:
        next(ticks)
        y = function(x @ weight)
        y.square().sum().backward()
        return y

    return step, weight


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_with_this_function_has_one_program(name: str) -> None:
    step, weight = _make_step(FUNCTIONS[name])
    eager, twin = _make_step(FUNCTIONS[name])
    call = torch.compile(step, options={"mode": "now", "follow": True})
    results = []
    for function, leaf in ((call, weight), (eager, twin)):
        torch.manual_seed(1)
        for _ in range(10):
            leaf.grad = None
            results.append((function(), leaf.grad.clone()))
    for (y, grad), (wanted, wanted_grad) in zip(results[:10], results[10:], strict=True):
        torch.testing.assert_close(y, wanted)
        torch.testing.assert_close(grad, wanted_grad, equal_nan=True)
    followed = call._fallback.followed
    assert followed.built == 1, followed.notes
    assert followed.programs[0].calls >= 6


def test_a_constant_that_varies_is_another_path() -> None:
    fills = itertools.count(-3.0)

    def step(x: Any) -> Any:
        return (x * 2).masked_fill(MASK, next(fills)) + 1

    call = torch.compile(step, options={"mode": "now", "follow": True})
    for i in range(12):
        y = call(torch.ones(3, 4))
        assert y[0].tolist() == [i - 2.0, 3.0, i - 2.0, 3.0]
