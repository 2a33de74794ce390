"""Queries about sizes that may be symbolic, named as in PyTorch's symbolic_shapes."""

from __future__ import annotations

from typing import Any

from ...export.errors import GuardOnDataDependentSymNode
from ...export.symbolic.conditions import SymbolicBool
from ...export.symbolic.sizes import SpecializationError, SymbolicSize, get_first_value
from ...tensor.symbolic_length import SymBool, SymFloat, SymInt
from ...tensor.tensor import Tensor
from ...utils import _pytree as pytree

__all__ = [
    "ConstraintViolationError", "GuardOnDataDependentSymNode", "ShapeEnv", "constrain_range",
    "definitely_false", "definitely_true", "free_symbols", "guard_int", "guard_or_false",
    "guard_or_true", "guard_size_oblivious", "has_free_symbols", "hint_int", "is_concrete_bool",
    "is_concrete_float", "is_concrete_int", "is_symbolic", "statically_known_true",
]

ConstraintViolationError = SpecializationError


class ShapeEnv:
    """Placeholder setting for FakeTensorMode, whose sizes are plain numbers. Ignores options."""

    def __init__(self, **options: Any) -> None:
        self.settings = options


def is_symbolic(val: Any) -> bool:
    """Return whether a number or condition has no fixed value.

    >>> from flambeau.fx.experimental.symbolic_shapes import is_symbolic
    >>> is_symbolic(3)
    False
    """
    return isinstance(val, (SymInt, SymFloat, SymBool))


def is_concrete_int(a: Any) -> bool:
    """Return whether an integer has a fixed value."""
    return not is_symbolic(a)


is_concrete_bool = is_concrete_float = is_concrete_int


def hint_int(a: Any, fallback: Any = None) -> int:
    """Return a size's value in the example inputs."""
    value: int = get_first_value(a)
    return value


def guard_int(a: Any) -> int:
    """Return a size as an int. SpecializationError if it is dynamic, since that would fix it."""
    if isinstance(a, SymbolicSize):
        raise SpecializationError(
            f"Constraints violated: the program turns the dynamic size {a!r} into a number"
        )
    return int(a)


def _answer(condition: Any, otherwise: bool) -> bool:
    if isinstance(condition, SymbolicBool):
        known = condition.answer()
        return otherwise if known is None else known
    return bool(condition)


def statically_known_true(x: Any) -> bool:
    """Return whether a condition is known to hold; False if undecided.

    >>> from flambeau.fx.experimental.symbolic_shapes import statically_known_true
    >>> statically_known_true(2 > 1)
    True
    """
    return _answer(x, False)


definitely_true = guard_or_false = statically_known_true


def guard_or_true(a: Any) -> bool:
    """Return whether a condition may hold; True if undecided."""
    return _answer(a, True)


def definitely_false(a: Any) -> bool:
    """Return whether a condition is known to be false."""
    return not _answer(a, True)


def guard_size_oblivious(expr: Any) -> bool:
    """Return whether a condition on sizes holds, treating undecided ones as false."""
    return _answer(expr, False)


def constrain_range(a: Any, *, min: int, max: int | None = None) -> None:
    """Constrain a number to [min, max]. ValueError if a fixed number is out of range."""
    for condition in (a >= min, True if max is None else a <= max):
        if isinstance(condition, SymbolicBool):
            condition.require()
        elif not condition:
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def free_symbols(val: Any) -> set[str]:
    """Return the names of the symbols in a number, a tensor's shape, or a container of these."""
    names: set[str] = set()
    for leaf in pytree.tree_leaves(val):
        for size in leaf.shape if isinstance(leaf, Tensor) else [leaf]:
            if isinstance(size, SymbolicSize):
                names |= {symbol.name for symbol, _ in size.expression.terms}
    return names


def has_free_symbols(val: Any) -> bool:
    """Return whether a number, a tensor's shape, or a container of these has symbols."""
    return bool(free_symbols(val))
