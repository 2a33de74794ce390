"""Symbolic numbers: the types, and the length of a ragged axis, identified only by its offsets.

Two lengths are equal if they are the same multiple of the same lengths. A comparison with a number
only answers if it holds for every length.
"""

from __future__ import annotations

from abc import ABC
from typing import Any

_INDETERMINATE = "ge: relation is indeterminate"


class SymFloat:
    """A float without a fixed value, which an exported program computes."""

    __slots__ = ()


class SymBool:
    """A truth value that an exported program computes."""

    def require(self, message: Any = None) -> None:
        """Take it as true from here on, and check it whenever the program runs."""
        raise NotImplementedError(f"{type(self).__name__}.require")


class SymInt(ABC):  # noqa: B024  # for `register`
    """The length of ragged axis `j<number>`, times `coefficient`.

    Sizes of exported programs, which are ints, count as instances.

    >>> length = torch.nested.nested_tensor([[1], [2, 3]], layout=torch.jagged).shape[1]
    >>> isinstance(length, torch.SymInt), length == 2, length >= 2
    (True, False, True)
    """

    __slots__ = ("coefficient", "number")

    def __init__(self, number: int, coefficient: int = 1) -> None:
        self.number, self.coefficient = number, coefficient

    def __repr__(self) -> str:
        name = f"j{self.number}"
        return name if self.coefficient == 1 else f"{self.coefficient}*{name}"

    def __eq__(self, other: Any) -> bool:
        return (type(other) is SymInt and other.number == self.number
                and other.coefficient == self.coefficient)

    def __hash__(self) -> int:
        return hash((self.number, self.coefficient))

    def __ge__(self, other: Any) -> bool:
        if type(other) is SymInt and other.number == self.number:
            return self.coefficient >= other.coefficient
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError(_INDETERMINATE)

    def __le__(self, other: Any) -> bool:
        if type(other) is SymInt:
            return other >= self
        if other < 2:
            return False
        raise ValueError(_INDETERMINATE)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __mul__(self, times: Any) -> SymInt:
        if not isinstance(times, int):
            raise ValueError(f"unsupported: {type(times)}")
        return SymInt(self.number, self.coefficient * times)

    __rmul__ = __mul__
