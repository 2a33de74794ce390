"""Host numbers: numbers that a step reads from tensors and returns or stores (`loss.item()`).

A program computes them from its outputs after it has run. Plain arithmetic is allowed, as is adding
to a number stored outside (`self.total += loss.item()`), but nothing that may raise: an eager step
would stop there and skip the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "round": round, "min": min, "max": max}
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    **FUNCTIONS, "abs": lambda x, _: abs(x),
}


class Read(NamedTuple):
    """A number that a step returns or stores: read from a tensor, or computed from two numbers.

    `operation`: "item", or a key of OPERATIONS. `left` is a Tensor for "item"; else both are
    Reads, plain numbers, Befores, or an Old.
    """

    operation: str
    left: Any
    right: Any = None


@dataclass(frozen=True, eq=False)
class Before:
    """A number computed, before the run, from outside numbers: source in terms of their paths.

    value: the number of the recorded call.
    is_divisor: whether the run needs it to be other than zero.
    is_operand: whether the run computes with it, so that it must be a float or fit into one.
    """

    source: str
    value: Any
    is_divisor: bool = False
    is_operand: bool = False


@dataclass(frozen=True, eq=False)
class Old:
    """The number stored at an outside place before the step adds to it."""

    place: Place


@dataclass(frozen=True, eq=False)
class Place:
    """A place outside the step to which it stores a number.

    owner: an object whose attribute `key` is set if `is_attribute`; a dict or list whose entry
    `key` is set; a list that is appended to, or an `itertools.count` that is advanced, if `key` is
    None; or a closure cell.
    """

    owner: Any
    key: Any
    is_attribute: bool = False


def combine(symbol: str, left: Any, right: Any) -> Read | None:
    """Return an operation on a Read and another number, or None if a program cannot repeat it."""
    sides = (left, right)
    if symbol not in OPERATIONS or not any(side.__class__ is Read for side in sides):
        return None
    known = all(side.__class__ in (Read, Before, int, float) for side in sides)
    may_raise = symbol == "/" and (right.__class__ is Read or not evaluate(right))
    if not known or may_raise:
        return None
    left, right = map(_as_operand, sides)
    if symbol == "/" and right.__class__ is Before:
        right = replace(right, is_divisor=True)
    return Read(symbol, left, right)


def _as_operand(x: Any) -> Any:
    return replace(x, is_operand=True) if x.__class__ is Before else x


def evaluate(read: Any) -> Any:
    """Compute the number of the recorded call that a Read or a Before stands for."""
    if read.__class__ is Before:
        return read.value
    if read.__class__ is not Read:
        return read
    if read.operation == "item":
        return read.left._array.item()
    return OPERATIONS[read.operation](evaluate(read.left), evaluate(read.right))


def combine_call(name: str, operands: list[Any]) -> Read | None:
    """Return abs(), round(), min() or max() of Reads and numbers, or None if a program cannot
    repeat it."""
    if name == "abs":
        return Read(name, operands[0]) if operands[0].__class__ is Read else None
    if name == "round":  # without digits it raises for NaN
        digits = operands[1] if len(operands) == 2 else None
        is_safe = operands[0].__class__ is Read and digits.__class__ is int and digits >= 0
        return Read(name, *operands) if is_safe else None
    if name not in ("min", "max") or len(operands) < 2:
        return None
    result = operands[0]
    for x in operands[1:]:
        if not all(side.__class__ in (Read, Before, int, float) for side in (result, x)):
            return None
        result = Read(name, _as_operand(result), _as_operand(x))
    return result
