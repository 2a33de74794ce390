"""What lowering refuses, and the registry of operators that are lowered by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# By operator name: a function of the body's parameters, on symbols, that gives symbols.
EXPLICIT: dict[str, Callable[..., Any]] = {}

# Operators that write to some of their arguments: the positions of these parameters. Their
# lowering gives the outputs, and then the new value of each of these (None for an absent one).
WRITES: dict[str, tuple[int, ...]] = {}


class Untraceable(Exception):
    """Something in a body that has no counterpart in the graph."""


class NotLowered(Exception):
    """An operator that has to be called as it is, and why."""

    def __init__(self, operator: Any, reason: str) -> None:
        super().__init__(f"{operator.name}: {reason}")
        self.operator, self.reason = operator, reason


def lowering(*names: str, writes: tuple[int, ...] = ()) -> Callable[[Callable], Callable]:
    """Declares the lowering of the operators of these names."""

    def decorate(function: Callable) -> Callable:
        for name in names:
            if name in EXPLICIT:
                raise TypeError(f"operator {name} has two lowerings")
            EXPLICIT[name] = function
            if writes:
                WRITES[name] = writes
        return function

    return decorate


def refuse(reason: str) -> Any:
    """Raises Untraceable: what is asked for cannot be part of a graph."""
    raise Untraceable(reason)
