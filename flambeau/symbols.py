"""Symbolic numbers, of which flambeau has none: the types for `isinstance`, and `sym_max` and its
like, which compute on plain numbers."""

from __future__ import annotations

import builtins
import math
from typing import Any

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class SymInt:
    """A symbolic integer; nothing is one."""


class SymFloat:
    """A symbolic float; nothing is one."""


class SymBool:
    """A symbolic truth value; nothing is one."""


def sym_int(a: Any) -> int:
    """Towards zero."""
    return builtins.int(a)


def sym_float(a: Any) -> float:
    """As a float."""
    return builtins.float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The greater number."""
    return builtins.max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number."""
    return builtins.min(a, b)


def sym_not(a: Any) -> bool:
    """Negation."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b` else `f`."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    return builtins.sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)
