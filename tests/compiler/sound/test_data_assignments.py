"""Assignments to `.data`: `w.data -= g` assigns to `w.data` what it already is, and stays compiled;
an assignment of other memory is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

UPDATES: dict[str, Callable[[Any], Any]] = {
    "subtract": lambda w: setattr(w, "data", w.data.sub_(0.1 * w.grad)),
    "scale": lambda w: setattr(w, "data", w.data.mul_(0.9)),
    "all of it": lambda w: setattr(w, "data", w.data[:]),
    "itself": lambda w: setattr(w, "data", w.data),
    "a new tensor": lambda w: setattr(w, "data", w.data - 0.1 * w.grad),
    "another shape": lambda w: setattr(w, "data", w.data.flip(0).view(4)),
}
PROVED = ("subtract", "scale", "all of it", "itself")


def _run(name: str, way: str) -> list[Any]:
    torch.manual_seed(0)
    w, x = torch.randn(4, requires_grad=True), torch.randn(8, 4)
    update, positions, values = UPDATES[name], itertools.cycle("ab"), []

    def step() -> Any:
        if way == "followed":
            next(positions)
        loss = (x @ w).square().mean()
        loss.backward()
        update(w)
        w.grad.zero_()
        return loss

    call = step if way == "eager" else torch.compile(step, options={"mode": "now"})
    for i in range(16):
        if i == 10:
            w.data = torch.ones(4)
        values += [call().item(), w.tolist(), w._version]
    if way == "proved" and name in PROVED:
        assert "proved harmless" in call.explain(), call.explain()
    return values


@pytest.mark.parametrize("way", ["proved", "followed"])
@pytest.mark.parametrize("name", UPDATES)
def test_the_tensor_has_the_values_and_version_of_the_eager_step(name: str, way: str) -> None:
    for actual, expected in zip(_run(name, way), _run(name, "eager"), strict=True):
        assert actual == pytest.approx(expected, rel=1e-5)


def test_the_statement_that_programs_write() -> None:
    w = torch.ones(3, requires_grad=True)

    def step() -> Any:
        (w * 2).sum().backward()
        w.data -= 0.25 * w.grad
        w.grad = None
        return w.detach().clone()

    call = torch.compile(step, options={"mode": "now"})
    values = [call()[0].item() for _ in range(8)]
    assert values == [0.5 - 0.5 * i for i in range(8)]
    assert "proved harmless" in call.explain()
