"""torch.utils._sympy.numbers: the bounds of integers that have none.

PyTorch's are SymPy's numbers. These are compared with numbers, and negated.
"""

from __future__ import annotations

import math
from functools import total_ordering
from typing import Any

__all__ = ["IntInfinity", "NegativeIntInfinity", "int_oo"]


@total_ordering
class _Bound:
    """Beyond all integers to one side, but within the infinities of floats."""

    _sign = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, _Bound):
            return self._sign < other._sign
        beyond = math.isinf(other) and (other > 0) == (self._sign > 0)
        return self._sign < 0 if not beyond else self._sign > 0

    def __hash__(self) -> int:
        return hash(type(self))

    def __abs__(self) -> IntInfinity:
        return int_oo

    def __int__(self) -> int:
        raise OverflowError(f"{self!r} has no value")

    def __repr__(self) -> str:
        return "int_oo" if self._sign > 0 else "-int_oo"


class IntInfinity(_Bound):
    """Larger than all integers.

    >>> from flambeau.utils._sympy.numbers import int_oo
    >>> int_oo > 10**30, int_oo < float("inf"), -int_oo
    (True, True, -int_oo)
    """

    def __neg__(self) -> NegativeIntInfinity:
        return NegativeIntInfinity()


class NegativeIntInfinity(_Bound):
    """Smaller than all integers."""

    _sign = -1

    def __neg__(self) -> IntInfinity:
        return int_oo


int_oo = IntInfinity()
