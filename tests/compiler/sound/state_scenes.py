"""Scenes of one factor that a step reads somewhere in Python, and a change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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


def put(owner: Any, name: str, value: Any) -> Callable[[], Any]:
    """A change that sets an attribute, and gives what sets it back."""

    def change() -> Any:
        before = getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            setattr(owner, name, before)

        return undo

    return change
