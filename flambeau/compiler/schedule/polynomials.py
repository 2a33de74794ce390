"""Polynomials of a length: how extents, strides and offsets of a step depend on a varying length.

They are fitted at a few lengths, and must hold at more lengths than are needed to determine them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class NoCommonForm(Exception):
    """Kernels of several lengths differ in more than numbers that are polynomials of the length."""


@dataclass(frozen=True)
class Polynomial:
    """base + slope * n + square * n * n, with integer coefficients."""

    base: int
    slope: int
    square: int = 0

    def __call__(self, n: int) -> int:
        """The value at a length."""
        return self.base + n * (self.slope + self.square * n)

    def source(self) -> str:
        """Python source of the polynomial, in the variable `n`."""
        return f"({self.base} + n * ({self.slope} + n * {self.square}))"


def fit(lengths: Sequence[int], values: Sequence[int], degree: int = 2) -> int | Polynomial:
    """Return the integer if all values are equal, else the polynomial that passes through them.

    Raises NoCommonForm if there is none of that degree with integer coefficients.
    """
    first = values[0]
    if all(value == first for value in values):
        return first
    (n, m, *_), (y, z, *_) = lengths, values
    slope, rest = divmod(z - y, m - n)
    result = Polynomial(y - slope * n, slope)
    if rest or not _passes(result, lengths, values):
        if degree < 2 or len(lengths) < 3:
            raise NoCommonForm(f"{[*values]} at lengths {[*lengths]}")
        result = _fit_parabola(lengths, values)
    return result


def _fit_parabola(lengths: Sequence[int], values: Sequence[int]) -> Polynomial:
    (n, m, k), (y, z, w) = lengths[:3], values[:3]
    # Newton's divided differences, over one denominator.
    top = (w - y) * (m - n) - (z - y) * (k - n)
    square, rest = divmod(top, (k - n) * (m - n) * (k - m))
    slope, more = divmod(z - y - square * (m * m - n * n), m - n)
    result = Polynomial(y - n * (slope + square * n), slope, square)
    if rest or more or not _passes(result, lengths, values):
        raise NoCommonForm(f"{[*values]} at lengths {[*lengths]}")
    return result


def _passes(form: Polynomial, lengths: Sequence[int], values: Sequence[int]) -> bool:
    return all(form(n) == value for n, value in zip(lengths, values, strict=True))
