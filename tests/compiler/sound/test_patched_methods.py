"""Methods of Tensor and functions of the library that are replaced before, while and after a step
is compiled, and put back: called as often as eagerly, with the same results."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import assert_same, freeze, wait_for_program

F = nn.functional
PLACES: list[tuple[Any, str]] = [
    (torch.Tensor, "__mul__"), (torch.Tensor, "__add__"), (torch.Tensor, "__pow__"),
    (torch.Tensor, "__getitem__"), (torch.Tensor, "sum"), (torch.Tensor, "backward"),
    (torch.Tensor, "detach"), (F, "relu"), (F, "mse_loss"), (F, "linear"), (torch, "tanh"),
    (nn.Linear, "forward"), (torch.optim.SGD, "step"), (torch.optim.Optimizer, "zero_grad"),
]
CHANGES = (0, 2, 6)


def _train(logs: bool) -> tuple[Callable, list[Any]]:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses: list[float] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        y = net(x) * 2
        y = F.relu(y) + torch.tanh(y) - y.sum() / 30
        loss = (y**2).mean() + F.mse_loss(y, x) + y.sigmoid().log_softmax(0)[1:].mean()
        if logs and loss.item() > -1:
            losses.append(loss.item())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [*net.parameters(), losses]


def _observe(owner: Any, name: str, logs: bool, mode: str | None, change: int) -> list[Any]:
    torch.manual_seed(0)
    step, state = _train(logs)
    if mode is not None:
        step = torch.compile(step, mode=mode)
    before, calls, seen = getattr(owner, name), [], []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return before(*args, **kwargs)

    try:
        for call in range(10):
            if call == change:
                setattr(owner, name, counted)
            if call == change + 4:
                setattr(owner, name, before)
            seen.append([freeze(step(torch.randn(4, 4))), len(calls)])
            if mode == "default" and call == 5:
                wait_for_program(step)
    finally:
        setattr(owner, name, before)
    return [seen, freeze(state)]


@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize(("name", "change", "logs"), [
    pytest.param(name, change, logs, marks=() if k % 4 == 0 else pytest.mark.slow)
    for k, (name, change, logs) in enumerate(
        itertools.product(range(len(PLACES)), CHANGES, (False, True)))])
def test_replaced_functions_are_called_as_eagerly(
    name: int, change: int, logs: bool, mode: str
) -> None:
    owner, attribute = PLACES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _observe(owner, attribute, logs, None, change)
        assert_same(_observe(owner, attribute, logs, mode, change), expected, attribute)
