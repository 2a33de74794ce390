"""The remainder of float32 numbers, computed in float64 if the quotient is small enough."""

from __future__ import annotations

from .vector_formulas import Lanes, Value, select_rare

# quotients up to which the product with the divisor has no more bits than float64
MAX_EXACT_QUOTIENT = 2.0**28


def rem32(m: Lanes, x: Value, y: Value) -> Value:
    """x less the multiple of y next towards zero, with the sign of x: C's fmod, to the last bit."""
    double, a = m.wide(m.abs(x))
    _, b = m.wide(m.abs(y))
    quotient = double.div(a, b)
    rest = double.fma(double.neg(double.floor(quotient)), b, a)
    was_rounded_up = double.less(rest, 0.0)
    rest = double.where(was_rounded_up, double.add(rest, b), rest)
    rest = double.where(double.less(a, b), a, rest)
    is_large = double.b.and_(
        double.less(MAX_EXACT_QUOTIENT, quotient), double.less(quotient, float("inf")))
    return select_rare(m, is_large, "fmodf", (x, y), m.copysign(m.narrow(rest), x))
