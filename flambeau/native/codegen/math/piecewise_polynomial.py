"""Functions as piecewise polynomials with coefficients selected by permutation: AVX-512 and AVX2.

An odd function that levels off is 32 polynomials (16 in float64), one for each interval of equal
width around a multiple of that width. Two registers hold a coefficient's values; one instruction
selects those of 16 (8) lanes. This takes a third of the work of a single formula, and no division.
AVX2 selects from one register: 8 wider intervals, for smoother curves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...loop_ir.ir import Type
from .exponential import MAGIC32, MAGIC64
from .vector_formulas import Lanes, Value

INTERVALS32, INTERVALS64 = 32, 16
_Function = Callable[[float], float]


def _fit_polynomial(curve: _Function, degree: int, low: float, high: float) -> list[float]:
    """Interpolate a curve at the Chebyshev points of an interval; constant coefficient first."""
    cosines = np.cos((np.arange(degree + 1) + 0.5) * (math.pi / (degree + 1)))
    points = (low + high) / 2 + (high - low) / 2 * cosines
    values = [curve(float(point)) for point in points]
    return [
        float(coefficient)
        for coefficient in np.linalg.solve(np.vander(points, increasing=True), values)
    ]


def _round_to_float32(value: float) -> float:
    return float(np.float32(value))


@dataclass(frozen=True)
class PiecewiseTable32:
    """An odd function of slope `slope` at 0 that is 1 beyond 31.5 widths; or, without slope, any.

    Widths have few enough bits that multiples are exact. `degree`: of the polynomials; `count`:
    their number (8 end at 7.5 widths).
    """

    curve: _Function
    slope: float | None
    width: float
    degree: int
    count: int = INTERVALS32

    @cached_property
    def columns(self) -> list[tuple[float, ...]]:
        """For each coefficient, the constant first, its values by interval."""
        half = self.width / 2
        rows = [] if self.slope is None else [self._fit_around_zero(half, self.slope)]
        for k in range(len(rows), self.count):
            rows.append(
                _fit_polynomial(
                    lambda r, at=k * self.width: self.curve(at + r),  # type: ignore[misc]
                    self.degree,
                    -half,
                    half,
                )
            )
        return list(zip(*rows, strict=True))

    def _fit_around_zero(self, half: float, start: float) -> list[float]:
        """Fit a polynomial that is 0 at 0 with the exact slope, so that small results are as
        precise as large ones."""
        rest = _fit_polynomial(lambda r: (self.curve(r) / r - start) / r, self.degree - 2, 0, half)
        return [0.0, _round_to_float32(start), *rest]

    def emit(self, m: Lanes, x: Value) -> Value:
        """The odd function of float32."""
        assert self.slope is not None
        first, slope, r = self.at(m, m.abs(x))
        rounding = self.slope - _round_to_float32(self.slope)
        if rounding:  # too small to change any other interval's constant
            first = m.fma(r, rounding, first)
        return m.copysign(m.fma(slope, r, first), x)

    def at(self, m: Lanes, size: Value) -> tuple[Value, Value, Value]:
        """Return c, y and r of c + y * r, the function's value for float32 numbers >= 0."""
        return _look_up_interval(m, size, self.width, self.columns)


def _look_up_interval(
    m: Lanes, size: Value, width: float, columns: list[tuple[float, ...]]
) -> tuple[Value, Value, Value]:
    """Return the constant of a number's interval, the remainder's slope, and the remainder."""
    limit = (len(columns[0]) - 0.51) * width
    magic = MAGIC64 if m.type is Type.F64 else MAGIC32
    clamped = m.where(m.less(limit, size), limit, size)
    shifted = m.fma(clamped, 1 / width, magic)
    r = m.fma(m.sub(shifted, magic), -width, clamped)
    interval = m.bits(shifted)
    first, *later = [m.look_up(interval, column) for column in columns]
    y = later.pop()
    while later:
        y = m.fma(y, r, later.pop())
    return first, y, r


@dataclass(frozen=True)
class PiecewiseTable64:
    """The same in float64: an odd function that is 1 beyond 15.5 widths, given by its series.

    `series`: its Taylor coefficients at a point, many more than `degree`.
    """

    series: Callable[[float], list[float]]
    width: float
    degree: int

    @cached_property
    def columns(self) -> list[tuple[float, ...]]:
        """For each coefficient, the constant first, its values by interval."""
        rows = [_economize(self.series(k * self.width), self.width / 2, self.degree)
                for k in range(INTERVALS64)]
        rows[0][0] = 0.0
        return list(zip(*rows, strict=True))

    def emit(self, m: Lanes, x: Value) -> Value:
        """The function of float64."""
        first, slope, r = _look_up_interval(m, m.abs(x), self.width, self.columns)
        return m.copysign(m.fma(slope, r, first), x)


def _economize(series: list[float], half: float, degree: int) -> list[float]:
    """Truncate a series in the Chebyshev basis on [-half, half], where the error is smallest."""
    from numpy.polynomial import chebyshev

    scaled = np.array([c * half**k for k, c in enumerate(series)])
    coefficients = chebyshev.cheb2poly(chebyshev.poly2cheb(scaled)[: degree + 1])
    return [float(c) / half**k for k, c in enumerate(coefficients)]
