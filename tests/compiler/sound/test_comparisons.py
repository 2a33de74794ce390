"""Comparing calls runs no `==` and no hash of the program's own classes: they may raise, answer
anything, or be counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

from .scenario import Scene, compare

CALLS: list[str] = []


class CountedInt(int):
    """An int that counts comparisons."""

    def __eq__(self, other):
        CALLS.append("==")
        return int(self) == other

    def __hash__(self):
        CALLS.append("hash")
        return int.__hash__(self)


class CountedStr(str):
    """A string that counts comparisons."""

    def __eq__(self, other):
        CALLS.append("==")
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class UnequalFloat(float):
    """A float that cannot be compared."""

    def __eq__(self, other):
        raise RuntimeError("compared")

    __hash__ = float.__hash__


class Arrays:
    """An object whose `==` gives an array."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __eq__(self, other):
        CALLS.append("==")
        return np.array([True, False])

    __hash__ = object.__hash__


KINDS: dict[str, Callable[[int], Any]] = {
    "int": CountedInt, "str": lambda k: CountedStr("a" * k), "float": UnequalFloat,
    "object": Arrays,
}


def _number(x: Any) -> float:
    return float(len(x)) if isinstance(x, str) else float(x)


def _argument(make: Callable) -> Scene:
    calls = iter(range(100))
    return Scene(lambda x, k: x * _number(k),
                 arguments=lambda: (torch.randn(3), make(2 + next(calls) // 7)), log=CALLS)


def _in_a_list(make: Callable) -> Scene:
    calls = iter(range(100))
    return Scene(lambda x, k: x * _number(k[0]["a"]),
                 arguments=lambda: (torch.randn(3), [{"a": make(2 + next(calls) // 7)}]), log=CALLS)


def _followed(make: Callable) -> Scene:
    def step(x, k):
        y = x * _number(k)
        return y + 1 if y.sum().item() > 0 else y

    return Scene(step, arguments=lambda: (torch.randn(3), make(2)), log=CALLS)


def _attribute(make: Callable) -> Scene:
    class Net(torch.nn.Module):
        """A module that writes its own attribute."""

        def __init__(self):
            super().__init__()
            self.count = make(2)

        def forward(self, x):
            self.count = make(3)
            return x * _number(self.count)

    net = Net()
    return Scene(lambda x: net(x), log=CALLS)


def _setting(make: Callable) -> Scene:
    def step(x):
        return torch.full((3,), _number(make(2))) + x.sum(int.__int__(make(0))) \
            if make is CountedInt else x * _number(make(3))

    return Scene(step, log=CALLS)


@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scene", [_argument, _in_a_list, _followed, _attribute, _setting])
def test_objects_are_not_compared(scene: Callable, kind: str, mode: str) -> None:
    def make() -> Scene:
        CALLS.clear()
        return scene(KINDS[kind])

    compare(make, mode, change_at=3)
