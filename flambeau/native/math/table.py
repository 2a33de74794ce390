"""Functions as polynomials by interval, whose coefficients a permutation picks: AVX-512 only.

An odd function that levels off is 32 polynomials, one for each interval of equal width around a
multiple of that width. Two registers hold a coefficient's 32 values; one instruction finds those of
16 lanes. A third of the work of one formula for all arguments, and no division.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .lanes import Lanes, Value

COUNT = 32
_MAGIC = 12582912.0  # 1.5 * 2**23: adding rounds to an integer, which is in the lowest bits
_Curve = Callable[[float], float]


def _polynomial(curve: _Curve, degree: int, low: float, high: float) -> list[float]:
    """The curve through the Chebyshev points of an interval, the constant coefficient first."""
    cosines = np.cos((np.arange(degree + 1) + 0.5) * (math.pi / (degree + 1)))
    points = (low + high) / 2 + (high - low) / 2 * cosines
    values = [curve(float(point)) for point in points]
    return [float(one) for one in np.linalg.solve(np.vander(points, increasing=True), values)]


def _single(value: float) -> float:
    return float(np.float32(value))


@dataclass(frozen=True)
class Table:
    """An odd function of slope `slope` at 0 that is 1 from 31.5 widths on.

    Widths have so few bits that multiples are exact. `degree` is that of the polynomials.
    """

    curve: _Curve
    slope: float
    width: float
    degree: int

    @cached_property
    def columns(self) -> list[tuple[float, ...]]:
        """For each coefficient, the constant one first, its values by interval."""
        half = self.width / 2
        rows = [self._around_zero(half)]
        for k in range(1, COUNT):
            rows.append(_polynomial(lambda r, at=k * self.width: self.curve(at + r),  # type: ignore[misc]
                                    self.degree, -half, half))  # fmt: skip
        return list(zip(*rows, strict=True))

    def _around_zero(self, half: float) -> list[float]:
        """0 at 0 and of the right slope, so that small results are as precise as large ones."""
        rest = _polynomial(lambda r: (self.curve(r) / r - self.slope) / r, self.degree - 2, 0, half)
        return [0.0, _single(self.slope), *rest]

    def emit(self, m: Lanes, x: Value) -> Value:
        """The function of float32."""
        size = m.abs(x)
        limit = (COUNT - 0.51) * self.width
        held = m.where(m.less(limit, size), limit, size)
        shifted = m.fma(held, 1 / self.width, _MAGIC)
        number = m.sub(shifted, _MAGIC)
        r = m.fma(number, -self.width, held)
        interval = m.bits(shifted)
        first, *later = [m.looked_up(interval, column) for column in self.columns]
        y = later.pop()
        while later:
            y = m.fma(y, r, later.pop())
        rounding = self.slope - _single(self.slope)
        if rounding:  # too little to change any other interval's constant
            first = m.fma(r, rounding, first)
        return m.signed(m.fma(y, r, first), x)
