"""Scenes of one factor that a step reads somewhere in Python, and a change of it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .scenario import Scene

WHEN = (("now", 4), ("default", 3), ("default", 8))  # mode, and before which call
MOSTLY_SLOW = (WHEN[0], *(pytest.param(*when, marks=pytest.mark.slow) for when in WHEN[1:]))


class Scenes(dict[str, Callable[[], Scene]]):
    """Scenes by name."""

    def add(self, make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
        """Registers what gives (factor, change) or (None, change, step): functions."""

        def build() -> Scene:
            factor, change, *rest = make()
            step = rest[0] if rest else lambda x: x * factor() + 1
            return Scene(step, change)

        self[make.__name__.replace("_", " ")] = build
        return make

    def add_action(self, make: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """Registers what gives an action on a loss, which may write to a log; or (action, change).
        """

        def build() -> Scene:
            log: list[Any] = []
            parts = make(log)
            action, change = parts if isinstance(parts, tuple) else (parts, lambda: None)
            weight = torch.ones(3, requires_grad=True)

            def step(x: Any) -> Any:
                loss = (x * weight).sum()
                result = action(loss)
                return loss.detach() if result is None else (loss.detach(), result)

            return Scene(step, change, state=[weight], log=log)

        self[make.__name__.replace("_", " ")] = build
        return make


def namespace(**values: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**values)


def module_of(name: str, source: str) -> types.ModuleType:
    """A module of a source."""
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def delete(owner: Any, name: str) -> Callable[[], None]:
    """A change that deletes an attribute."""
    return lambda: delattr(owner, name)


def put(owner: Any, name: str, value: Any) -> Callable[[], Any]:
    """A change that sets an attribute, and gives what sets it back."""

    def change() -> Any:
        before = getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            setattr(owner, name, before)

        return undo

    return change
