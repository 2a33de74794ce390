"""What lowering refuses, and the registry of operators that are lowered by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...ops.core.operator import OPERATORS, Operator

# A function of the body's parameters, on symbols, that gives symbols. That of an operator that
# writes to arguments gives the outputs, and then the new value of each of these (None for an absent
# one).
EXPLICIT: dict[Operator, Callable[..., Any]] = {}


class Untraceable(Exception):
    """Something in a body that has no counterpart in the graph."""


class NotLowered(Exception):
    """An operator that has to be called as it is, and why."""

    def __init__(self, operator: Any, reason: str) -> None:
        super().__init__(f"{operator.name}: {reason}")
        self.operator, self.reason = operator, reason


def lowering(*names: str) -> Callable[[Callable], Callable]:
    """Declare the lowering of the operators of these names; TypeError if one is not there."""

    def decorate(function: Callable) -> Callable:
        for name in names:
            operator = OPERATORS.get(name)
            if operator is None:
                raise TypeError(f"there is no operator {name} to lower")
            if operator in EXPLICIT:
                raise TypeError(f"operator {name} has two lowerings")
            EXPLICIT[operator] = function
        return function

    return decorate


class _Conditions(threading.local):
    """What bodies that are being lowered require, by thread."""

    nodes: list[Any] | None = None


_CONDITIONS = _Conditions()


def require(condition: Any) -> None:
    """Require that a bool symbol without axes holds. Where it does not, a run ends before it writes
    anything, and the call runs eagerly, which raises."""
    if _CONDITIONS.nodes is not None:
        _CONDITIONS.nodes.append(condition.node)


@contextmanager
def collecting_conditions() -> Iterator[list[Any]]:
    """Inside, collect the nodes that lowerings require."""
    before, _CONDITIONS.nodes = _CONDITIONS.nodes, []
    try:
        yield _CONDITIONS.nodes
    finally:
        _CONDITIONS.nodes = before


def refuse(reason: str) -> Any:
    """Raise Untraceable: what is asked for cannot be part of a graph."""
    raise Untraceable(reason)
