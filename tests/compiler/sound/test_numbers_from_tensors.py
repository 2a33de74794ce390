"""Tensors where an operator takes a number: a size, a position, a fill value. It reads the value,
so a program or a followed segment of an earlier call must not answer with that call's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F

from .scenario import Scene, compare

STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "view": lambda x, n, f: x.view(n, -1),
    "expand": lambda x, n, f: x[:1].expand(n, 1),
    "select": lambda x, n, f: x.select(0, n),
    "diagonal": lambda x, n, f: x.view(3, 4).diagonal(n - 2),
    "repeat": lambda x, n, f: x.repeat(n, 2),
    "repeat of a list": lambda x, n, f: x.repeat([n, 2]),
    "tile": lambda x, n, f: x.tile((n,)),
    "roll": lambda x, n, f: x.roll(n),
    "topk": lambda x, n, f: x.topk(n).values,
    "zeros": lambda x, n, f: torch.zeros(n, 2),
    "ones of a tuple": lambda x, n, f: torch.ones((n, 2)),
    "full": lambda x, n, f: torch.full((3,), f),
    "empty": lambda x, n, f: torch.empty(n).fill_(1.0),
    "arange": lambda x, n, f: torch.arange(n),
    "linspace": lambda x, n, f: torch.linspace(f, 4, n),
    "eye": lambda x, n, f: torch.eye(n),
    "new_zeros": lambda x, n, f: x.new_zeros(n),
    "new_full": lambda x, n, f: x.new_full((2,), f),
    "tensor": lambda x, n, f: torch.tensor([n, f]),
    "dropout": lambda x, n, f: F.dropout(x, f - 1),
    "bernoulli_": lambda x, n, f: x.clone().bernoulli_(f - 1),
}


def make_scene(step: Callable[[Any, Any, Any], Any], looks: bool) -> Scene:
    """A step that reads a counter and a rate, both tensors, which change once."""
    n, f, log = torch.tensor(2), torch.tensor(1.5), []

    def run(x: torch.Tensor) -> Any:
        if looks:  # followed instead of proved
            log.append(float(x.sum()))
        return step(x, n, f)

    def change() -> None:
        n.fill_(3)
        f.fill_(1.75)

    return Scene(run, change, lambda: (torch.arange(12.0),), log=log)


@pytest.mark.parametrize("looks", [False, True], ids=["proved", "followed"])
@pytest.mark.parametrize("name", STEPS)
def test_a_number_is_read_from_a_tensor_in_each_call(name: str, looks: bool) -> None:
    compare(lambda: make_scene(STEPS[name], looks), "now", 5)
