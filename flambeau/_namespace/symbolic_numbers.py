"""Functions of numbers that may be symbolic: ragged lengths, and numbers of exported programs.

A function of a number that varies becomes a node of the program's graph.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

from ..tensor.symbolic_length import SymBool, SymFloat, SymInt

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sqrt", "sym_sum",
]


def _recordable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let numbers that vary apply the function themselves."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        for a in args:
            apply_function = getattr(a, "apply_function", None)
            if apply_function is not None:
                return apply_function(call, args)
        return function(*args)

    return call


@_recordable
def sym_int(a: Any) -> int:
    """Round a number towards zero.

    >>> torch.sym_int(-1.5)
    -1
    """
    return builtins.int(a)


@_recordable
def sym_float(a: Any) -> float:
    """Convert a number to a float.

    >>> torch.sym_float(2)
    2.0
    """
    return builtins.float(a)


@_recordable
def sym_max(a: Any, b: Any) -> Any:
    """Return the greater number, as a float if either is a float.

    >>> torch.sym_max(3, 2.5)
    3.0
    """
    return _float_if_one_is(builtins.max(a, b), a, b)


@_recordable
def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number, as a float if either is a float.

    >>> torch.sym_min(1, 2.5)
    1.0
    """
    return _float_if_one_is(builtins.min(a, b), a, b)


def _float_if_one_is(chosen: Any, a: Any, b: Any) -> Any:
    return builtins.float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


@_recordable
def sym_not(a: Any) -> bool:
    """Negate a truth value.

    >>> torch.sym_not(True)
    False
    """
    return not a


@_recordable
def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return `t` if `b` holds, else `f`.

    >>> torch.sym_ite(True, 1, 2)
    1
    """
    return t if b else f


def sym_sum(args: Any) -> Any:
    """Add up numbers.

    >>> torch.sym_sum([1, 2, 3])
    6
    """
    return builtins.sum(args)


@_recordable
def _sym_sqrt(a: Any) -> float:
    """Return the square root.

    >>> torch.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


sym_sqrt = _sym_sqrt
