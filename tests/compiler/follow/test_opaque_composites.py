"""Composites that read values or compute without operators: what one step learns of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F


def follow(step: Callable) -> Any:
    calls = iter(int, 1)  # advanced from outside, so that the step keeps its Python

    def counted(*args: Any) -> Any:
        next(calls)
        return step(*args)

    return torch.compile(counted, options={"mode": "now", "follow": True}, backend="evaluate")


SIZE, CHANCE = torch.tensor(6), torch.tensor(0.5)
# A step in which a composite reads a tensor's value, and one in which the same composite does not.
STEPS: dict[str, tuple[Callable, Callable]] = {
    "reshape": (lambda x: x.reshape(SIZE, 4).sum(0), lambda x: (x * 2).reshape(6, 4).sum(0) + 1),
    "expand": (lambda x: x[:1].expand(SIZE, 3, 4) * 1, lambda x: (x[:1] * 2).expand(6, 3, 4) + 1),
    "dropout": (lambda x: F.dropout(x, CHANCE), lambda x: F.dropout(x * 2, 0.5) + 1),
}


@pytest.mark.parametrize(("reading", "usual"), STEPS.values(), ids=STEPS)
def test_a_step_does_not_pay_for_what_another_step_reads(reading: Callable, usual: Callable
                                                         ) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    other = follow(reading)
    for _ in range(4):
        other(x)
    followed = follow(usual)
    for _ in range(6):
        torch.manual_seed(3)
        actual = followed(x)
        torch.manual_seed(3)
        assert actual.tolist() == usual(x).tolist()
    assert [program.count for program in followed._fallback.followed.programs] == [
        followed._fallback.followed.root.segments[0].count], followed.explain()


def test_a_size_that_becomes_a_tensor_is_read_in_each_call() -> None:
    """The same composite, in one step, with arguments of either class."""
    def step(x: torch.Tensor, rows: Any) -> torch.Tensor:
        return (x * 2).reshape(rows, 4).sum(0)

    followed, x = follow(step), torch.arange(24.0)
    for rows in (*[6] * 8, SIZE, torch.tensor(6), 6, 6, SIZE):
        assert followed(x, rows).tolist() == step(x, rows).tolist()
