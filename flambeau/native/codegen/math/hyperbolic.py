"""tanh in float32; sinh, cosh and the inverses in float64 inside."""

from __future__ import annotations

import math

from .exponential import EXP32, LN2, LN2_HIGH32, LN2_LOW32, LOG2_E, MAGIC32, exp64, expm1_64
from .logarithm import atanh_series, log1p_64, split_mantissa_64
from .piecewise_polynomial import PiecewiseTable32
from .vector_formulas import Lanes, Value

# (tanh(x) - x) / x**3 in x**2 for |x| < 0.625, by least squares towards minimax.
TANH = (
    -0.0061131880300895145, 0.021010078710321387, -0.05385406910864139, 0.13332794542168186,
    -0.333333292494784,
)
# (exp(2 * r) - 1 - 2 * r) / r**2
_EXP_OF_TWICE = tuple([term * 2**power for term, power in zip(EXP32, (6, 5, 4, 3, 2), strict=True)])
TANH_TABLE = PiecewiseTable32(math.tanh, 1.0, 19 / 64, 6)


def tanh32(m: Lanes, x: Value) -> Value:
    """tanh of float32: 1.5 units in the last place, 1.1 by table."""
    if m.has_permute:
        return TANH_TABLE.emit(m, x)
    size = m.abs(x)
    square = m.mul(x, x)
    series = m.fma(m.mul(m.polynomial(square, TANH), square), x, x)
    return m.copysign(m.where(m.less(size, 0.625), series, _tanh_by_exp(m, size)), x)


def _tanh_by_exp(m: Lanes, size: Value) -> Value:
    """tanh away from 0: e / (e + 2), where e = exp(2 * size) - 1.

    exp(2 * size) is 2**n * (1 + p), and e then 2**n * p + (2**n - 1): n is never negative.
    """
    clamped = m.where(m.less(10.0, size), 10.0, size)  # from where on it is 1
    shifted = m.fma(clamped, 2 * LOG2_E, MAGIC32 + 127)
    power = m.floats(m.b.shl(m.bits(shifted), m.integer(23)))
    integer = m.sub(shifted, MAGIC32 + 127)
    r = m.fma(integer, -LN2_LOW32 / 2, m.fma(integer, -LN2_HIGH32 / 2, clamped))
    p = m.fma(m.polynomial(r, _EXP_OF_TWICE), m.mul(r, r), m.add(r, r))
    e = m.fma(p, power, m.sub(power, 1.0))
    return m.div(e, m.add(e, 2.0))


def sinh32(m: Lanes, x: Value) -> Value:
    """sinh of float32."""
    double, z = m.wide(x)
    e = expm1_64(double, double.abs(z))
    y = double.mul(double.add(e, double.div(e, double.add(e, 1.0))), 0.5)
    y = double.where(double.equal(e, float("inf")), e, y)
    return m.narrow(double.copysign(y, z))


def cosh32(m: Lanes, x: Value) -> Value:
    """cosh of float32."""
    double, z = m.wide(x)
    e = exp64(double, double.abs(z))
    return m.narrow(double.mul(double.add(e, double.div(1.0, e)), 0.5))


def asinh32(m: Lanes, x: Value) -> Value:
    """asinh of float32: sign(x) * log(|x| + sqrt(x**2 + 1))."""
    double, z = m.wide(x)
    size = double.abs(z)
    square = double.mul(size, size)
    root = double.sqrt(double.add(square, 1.0))
    y = log1p_64(double, double.add(size, double.div(square, double.add(root, 1.0))))
    y = double.where(double.equal(size, float("inf")), size, y)
    return m.narrow(double.copysign(y, z))


def acosh32(m: Lanes, x: Value) -> Value:
    """acosh of float32: log(x + sqrt(x**2 - 1))."""
    double, z = m.wide(x)
    t = double.sub(z, 1.0)
    y = log1p_64(double, double.add(t, double.sqrt(double.mul(t, double.add(t, 2.0)))))
    y = double.where(double.less(z, 1.0), float("nan"), y)
    return m.narrow(double.where(double.equal(z, float("inf")), z, y))


def atanh32(m: Lanes, x: Value) -> Value:
    """atanh of float32: log((1 + x) / (1 - x)) / 2, near 0 by that logarithm's series in x."""
    double, z = m.wide(x)
    size = double.abs(z)
    is_small = double.less(size, 0.17)
    e, s = split_mantissa_64(double, double.div(double.add(size, 1.0), double.sub(1.0, size)))
    y = atanh_series(double, double.where(is_small, size, s))
    y = double.mul(double.fma(double.where(is_small, 0.0, e), LN2, y), 0.5)
    y = double.where(double.less(size, 1.0), y, float("nan"))
    y = double.where(double.equal(size, 1.0), float("inf"), y)
    return m.narrow(double.copysign(y, z))
