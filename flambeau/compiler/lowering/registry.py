"""What lowering refuses, and the registry of operators that are lowered by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class Required:
    """What lowerings require: bools that must hold, and integers that lie in [0, size), or in
    [-size, size) where they wrap, as (node, size, wraps)."""

    conditions: list[Any] = field(default_factory=list)
    positions: list[tuple[Any, int, bool]] = field(default_factory=list)


class _Lowering(threading.local):
    """What the lowerings that run on a thread require."""

    required: Required | None = None


_LOWERING = _Lowering()


def require(condition: Any) -> None:
    """Require that a bool symbol without axes holds. Where it does not, a run ends before it writes
    anything, and the call runs eagerly, which raises."""
    if _LOWERING.required is not None:
        _LOWERING.required.conditions.append(condition.node)


def require_positions(node: Any, size: int, wraps: bool = False) -> None:
    """Require that a node's integers are positions along an axis; negative ones where they wrap.
    Nodes that read at positions say so themselves: this is for lowerings that compare them."""
    if _LOWERING.required is not None:
        _LOWERING.required.positions.append((node, size, wraps))


@contextmanager
def collecting_required() -> Iterator[Required]:
    """Inside, collect what lowerings require."""
    before, _LOWERING.required = _LOWERING.required, Required()
    try:
        yield _LOWERING.required
    finally:
        _LOWERING.required = before


def refuse(reason: str) -> Any:
    """Raise Untraceable: what is asked for cannot be part of a graph."""
    raise Untraceable(reason)
