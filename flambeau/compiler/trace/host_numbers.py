"""Host numbers: numbers that a step takes out of tensors and hands on, as in `return loss.item()`.

A program works them out after its run, from outputs. Plain arithmetic may be on the way, and a
number may be added to what is stored outside: `self.total += loss.item()`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}


class Read(NamedTuple):
    """A number that a step returns or stores: read from a tensor, or computed from two numbers.

    `operation`: "item", or a key of OPERATIONS. `left` is a Tensor for "item"; else both are
    Reads, plain numbers, or an Old.
    """

    operation: str
    left: Any
    right: Any = None


@dataclass(frozen=True, eq=False)
class Old:
    """The number at a place outside before a step adds to it."""

    place: Place


@dataclass(frozen=True, eq=False)
class Place:
    """Where a step stores something outside.

    owner: an object whose attribute `key` is set if `is_attribute`; a dict or list whose entry
    `key` is set; a list that is appended to if `key` is None; or a closure cell.
    """

    owner: Any
    key: Any
    is_attribute: bool = False


def combine(symbol: str, left: Any, right: Any) -> Read | None:
    """Arithmetic on a Read and another number; None where it is not known how to repeat it."""
    sides = (left, right)
    if symbol not in OPERATIONS or not any(side.__class__ is Read for side in sides):
        return None
    known = all(side.__class__ in (Read, int, float) for side in sides)
    return Read(symbol, left, right) if known else None
