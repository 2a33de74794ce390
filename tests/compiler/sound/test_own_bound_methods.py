"""Objects that hold a bound method of their own: compiling a step that uses them ends."""

from __future__ import annotations

import types

import pytest

import flambeau as torch

from .scenario import Scene, compare


class Agent:
    """Chooses its rule once, as an attribute."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.rule = self.multiply

    def multiply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    def add(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.factor

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.rule(x) + 1


@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("bound", [False, True])
def test_a_rule_that_is_replaced(mode: str, bound: bool) -> None:
    def make() -> Scene:
        agent = Agent(2.0)

        def change() -> None:
            agent.rule = types.MethodType(Agent.add, agent)

        return Scene(agent.step if bound else lambda x: agent.rule(x), change)

    compare(make, mode, 5 if mode == "now" else 3)


def test_two_objects_that_hold_methods_of_each_other() -> None:
    first, second = Agent(2.0), Agent(3.0)
    first.rule, second.rule = second.add, first.multiply
    compiled = torch.compile(first.step, mode="now")
    for i in range(4):
        x = torch.full((3,), float(i))
        assert torch.equal(compiled(x), first.step(x))
