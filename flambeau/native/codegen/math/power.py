"""pow of float32: exp(y * log(x)) in float64 inside, with C's rules for signs and infinities."""

from __future__ import annotations

from .exponential import exp64
from .logarithm import log64
from .vector_formulas import Lanes, Value


def pow32(m: Lanes, x: Value, y: Value) -> Value:
    """x**y."""
    b = m.b
    double, base = m.wide(x)
    _, exponent = m.wide(y)
    size = double.abs(base)
    magnitude = exp64(double, double.mul(exponent, log64(double, size)))
    is_integer = double.equal(double.floor(exponent), exponent)
    half = double.mul(exponent, 0.5)
    is_odd = b.and_(is_integer, b.not_(double.equal(double.floor(half), half)))
    below = double.negative(base)
    magnitude = double.where(b.and_(is_odd, below), double.neg(magnitude), magnitude)
    infinite = double.equal(double.abs(exponent), float("inf"))
    broken = b.and_(double.less(base, 0.0), b.not_(b.or_(is_integer, infinite)))
    broken = b.and_(broken, b.not_(double.equal(size, float("inf"))))
    magnitude = double.where(broken, float("nan"), magnitude)
    magnitude = double.where(b.and_(double.equal(size, 1.0), infinite), 1.0, magnitude)
    magnitude = double.where(double.equal(base, 1.0), 1.0, magnitude)
    return m.narrow(double.where(double.equal(exponent, 0.0), 1.0, magnitude))
