"""pow of float32: exp(y * log(x)) in float64 inside, with C's rules for signs and infinities."""

from __future__ import annotations

from .exponential import exp64
from .logarithm import log64
from .vector_formulas import Lanes, Value


def pow32(m: Lanes, x: Value, y: Value) -> Value:
    """x**y."""
    b = m.b
    wide, base = m.wide(x)
    _, exponent = m.wide(y)
    size = wide.abs(base)
    magnitude = exp64(wide, wide.mul(exponent, log64(wide, size)))
    whole = wide.equal(wide.floor(exponent), exponent)
    half = wide.mul(exponent, 0.5)
    odd = b.and_(whole, b.not_(wide.equal(wide.floor(half), half)))
    below = wide.negative(base)
    magnitude = wide.where(b.and_(odd, below), wide.neg(magnitude), magnitude)
    infinite = wide.equal(wide.abs(exponent), float("inf"))
    broken = b.and_(wide.less(base, 0.0), b.not_(b.or_(whole, infinite)))
    broken = b.and_(broken, b.not_(wide.equal(size, float("inf"))))
    magnitude = wide.where(broken, float("nan"), magnitude)
    magnitude = wide.where(b.and_(wide.equal(size, 1.0), infinite), 1.0, magnitude)
    magnitude = wide.where(wide.equal(base, 1.0), 1.0, magnitude)
    return m.narrow(wide.where(wide.equal(exponent, 0.0), 1.0, magnitude))
