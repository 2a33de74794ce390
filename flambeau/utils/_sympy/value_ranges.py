"""torch.utils._sympy.value_ranges: the values that a size may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .numbers import int_oo

__all__ = ["ValueRangeError", "ValueRanges"]


class ValueRangeError(RuntimeError):
    """A range without values."""


@dataclass(frozen=True, repr=False)
class ValueRanges:
    """All numbers from `lower` to `upper`, both included.

    >>> from flambeau.utils._sympy.value_ranges import ValueRanges
    >>> ValueRanges(2, 8) & ValueRanges(0, 5), 9 in ValueRanges(2, 8)
    (VR[2, 5], False)
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueRangeError(f"Invalid ranges [{self.lower}:{self.upper}]")

    def __contains__(self, number: Any) -> bool:
        return bool(self.lower <= number <= self.upper)

    def __and__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __or__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(min(self.lower, other.lower), max(self.upper, other.upper))

    def issubset(self, other: ValueRanges) -> bool:
        """Return whether all of these values lie in the other range."""
        return bool(other.lower <= self.lower and self.upper <= other.upper)

    def is_singleton(self) -> bool:
        """Return whether the range has one value."""
        return bool(self.lower == self.upper)

    def tighten(self, other: ValueRanges) -> ValueRanges:
        """Return the values in both ranges."""
        return self & other

    @staticmethod
    def unknown_int() -> ValueRanges:
        """Return the range of all integers."""
        return ValueRanges(-int_oo, int_oo)

    @staticmethod
    def wrap(value: Any) -> ValueRanges:
        """Return a range as it is, and a number as the range of that number."""
        return value if isinstance(value, ValueRanges) else ValueRanges(value, value)

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"
