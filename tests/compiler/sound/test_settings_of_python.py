"""Settings outside the step that a program must notice: built-ins, profilers, filled memory; and an
optimizer that is replaced by another class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import Scene, compare


def test_functions_with_builtins_of_their_own() -> None:
    def make() -> Scene:
        space: dict[str, Any] = {"__builtins__": {"len": len}}
        exec("def scaled(x, values): return x * len(values)", space)
        own = space["__builtins__"]
        return Scene(lambda x: space["scaled"](x, [1, 2]),
                     lambda: own.update(len=lambda values: 50))

    compare(make, "now", 5)


def test_a_profile_function_sees_the_calls_of_a_step() -> None:
    def make() -> Scene:
        log: list[str] = []

        def scaled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def note(frame: Any, event: str, argument: Any) -> None:
            if event == "call" and frame.f_code is scaled.__code__:
                log.append(event)

        def change() -> Callable[[], None]:
            sys.setprofile(note)
            return lambda: sys.setprofile(None)

        return Scene(lambda x: scaled(x) + 1, change, log=log)

    compare(make, "now", 5)


def test_new_memory_is_filled_in_deterministic_mode() -> None:
    step = torch.compile(lambda x: x * torch.empty(64).isnan().all(), options={"mode": "now"})
    x = torch.ones(3)
    for _ in range(4):
        step(x)
    torch.use_deterministic_algorithms(True)
    try:
        assert [step(x).tolist() for _ in range(4)] == [[1.0] * 3] * 4
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("other", ["ASGD", "Adamax", "NAdam"])
def test_a_followed_step_gets_another_optimizer(other: str) -> None:
    def make() -> Scene:
        net = nn.Linear(3, 2)
        now = [torch.optim.SGD(net.parameters(), lr=0.01)]
        log: list[float] = []

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = (net(x) ** 2).mean()
            now[0].zero_grad()
            loss.backward()
            now[0].step()
            log.append(loss.item())
            return loss.detach()

        def change() -> None:
            now[0] = getattr(torch.optim, other)(net.parameters(), lr=0.01)

        return Scene(step, change, state=list(net.parameters()), log=log)

    compare(make, "now", 5)
