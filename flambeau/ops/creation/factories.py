"""Factories: functions that create tensors and compute nothing from tensors, so are no operators.

The compiler records what a factory creates as a constant, or as memory that needs no values.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto


class Contents(Enum):
    """What the memory of a created tensor contains."""

    FIXED = auto()  # values that the arguments determine
    UNDEFINED = auto()


FACTORIES: dict[Contents, list[Callable]] = {contents: [] for contents in Contents}


def declare_factory(function: Callable, contents: Contents, template: str | None = None) -> None:
    """Register a public function that creates a tensor. `template`: the parameter, if any, that is
    a tensor of which the function reads only properties such as the shape and the dtype."""
    function.template = template  # type: ignore[attr-defined]
    FACTORIES[contents].append(function)
