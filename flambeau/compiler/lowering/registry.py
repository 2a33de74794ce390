"""The registry of hand-written lowerings, and the errors for what cannot be lowered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...ops.core.operator import OPERATORS, Operator

# The lowering of an operator: takes the body's parameters as symbols and returns symbols. For an
# operator that writes to arguments: the outputs, then the new value of each written argument
# (None if absent).
EXPLICIT: dict[Operator, Callable[..., Any]] = {}


class Untraceable(Exception):
    """A body does something that has no counterpart in the graph."""


class NotLowered(Exception):
    """An operator that programs must call eagerly, and why."""

    def __init__(self, operator: Any, reason: str) -> None:
        super().__init__(f"{operator.name}: {reason}")
        self.operator, self.reason = operator, reason


def lowering(*names: str) -> Callable[[Callable], Callable]:
    """Register the lowering of the named operators; TypeError if one does not exist."""

    def decorate(function: Callable) -> Callable:
        for name in names:
            operator = OPERATORS.get(name)
            if operator is None:
                raise TypeError(f"unknown operator {name} to lower")
            if operator in EXPLICIT:
                raise TypeError(f"operator {name} has two lowerings")
            EXPLICIT[operator] = function
        return function

    return decorate


@dataclass(eq=False)
class Required:
    """What lowerings require: bools that must hold, and integers in [0, size), or [-size, size) if
    they wrap, as (node, size, wraps).
    """

    conditions: list[Any] = field(default_factory=list)
    positions: list[tuple[Any, int, bool]] = field(default_factory=list)


class _Lowering(threading.local):
    """What the lowerings running on a thread require."""

    required: Required | None = None


_LOWERING = _Lowering()


def require(condition: Any) -> None:
    """Require that a bool symbol without axes holds. If it does not, the run stops before writing
    anything, and the eager call raises the error.
    """
    if _LOWERING.required is not None:
        _LOWERING.required.conditions.append(condition.node)


def require_positions(node: Any, size: int, wraps: bool = False) -> None:
    """Require that a node's integers are positions along an axis, negative ones only if they wrap.
    Nodes that read at positions are checked anyway: this is for lowerings that compare positions.
    """
    if _LOWERING.required is not None:
        _LOWERING.required.positions.append((node, size, wraps))


@contextmanager
def collect_required() -> Iterator[Required]:
    """Collect what the lowerings inside require."""
    before, _LOWERING.required = _LOWERING.required, Required()
    try:
        yield _LOWERING.required
    finally:
        _LOWERING.required = before


def refuse(reason: str) -> Any:
    """Raise Untraceable, with the reason."""
    raise Untraceable(reason)
