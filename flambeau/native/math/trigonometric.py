"""sin, cos, tan and the inverses of float32, in float64 inside."""

from __future__ import annotations

import math

from .lanes import Lanes, Value, where_rare

# pi / 2 in three parts; fused multiply-adds make the reduction exact up to FAR.
PARTS = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
FAR = 1e15  # beyond, the C library reduces, lane by lane
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(7, 0, -1))
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(8, 1, -1))
ATAN = tuple((-1) ** k / (2 * k + 1) for k in range(13, 0, -1))  # for |x| < tan(pi / 8)


def _sin_cos(m: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """sin and cos of the rest after quarter turns, and the number of these (as integers)."""
    shifted = m.fma(x, 2 / math.pi, 6755399441055744.0)
    quarter = m.bits(shifted)
    n = m.sub(shifted, 6755399441055744.0)
    r = x
    for part in PARTS:
        r = m.fma(n, -part, r)
    square = m.mul(r, r)
    sine = m.fma(m.mul(m.polynomial(square, SIN), square), r, r)
    cosine = m.fma(m.polynomial(square, COS), m.mul(square, square), m.fma(square, -0.5, 1.0))
    return sine, cosine, quarter


def _turned(m: Lanes, x: Value, turns: int) -> Value:
    """sin(x + turns quarter turns)."""
    b = m.b
    sine, cosine, quarter = _sin_cos(m, x)
    quarter = b.add(quarter, m.integer(turns))
    odd = b.icmp_unsigned("!=", b.and_(quarter, m.integer(1)), m.integer(0))
    y = b.select(odd, cosine, sine)
    flip = b.icmp_unsigned("!=", b.and_(quarter, m.integer(2)), m.integer(0))
    y = m.where(flip, m.neg(y), y)
    return m.where(m.same(m.abs(x), float("inf")), float("nan"), y)


def sin32(m: Lanes, x: Value) -> Value:
    """sin of float32."""
    wide, z = m.wide(x)
    return _checked(m, x, m.narrowed(wide.where(wide.same(z, 0.0), z, _turned(wide, z, 0))), "sinf")


def cos32(m: Lanes, x: Value) -> Value:
    """cos of float32."""
    wide, z = m.wide(x)
    return _checked(m, x, m.narrowed(_turned(wide, z, 1)), "cosf")


def tan32(m: Lanes, x: Value) -> Value:
    """tan of float32."""
    b = m.b
    wide, z = m.wide(x)
    sine, cosine, quarter = _sin_cos(wide, z)
    odd = b.icmp_unsigned("!=", b.and_(quarter, wide.integer(1)), wide.integer(0))
    top, bottom = b.select(odd, wide.neg(cosine), sine), b.select(odd, sine, cosine)
    y = wide.where(wide.same(wide.abs(z), float("inf")), float("nan"), wide.div(top, bottom))
    return _checked(m, x, m.narrowed(wide.where(wide.same(z, 0.0), z, y)), "tanf")


def _checked(m: Lanes, x: Value, y: Value, name: str, limit: float = FAR) -> Value:
    """y, but where x is so great that only the C library's reduction is exact, its result."""
    size = m.abs(x)
    far = m.b.and_(m.less(limit, size), m.less(size, float("inf")))
    return where_rare(m, far, name, (x,), y)


def atan64(m: Lanes, x: Value) -> Value:
    """atan, reduced to |x| < tan(pi / 8)."""
    size = m.abs(x)
    great, middle = m.less(2.414213562373095, size), m.less(0.41421356237309503, size)
    flipped = m.div(-1.0, size)
    slid = m.div(m.sub(size, 1.0), m.add(size, 1.0))
    r = m.where(great, flipped, m.where(middle, slid, size))
    start = m.where(great, math.pi / 2, m.where(middle, math.pi / 4, 0.0))
    square = m.mul(r, r)
    y = m.add(m.fma(m.mul(m.polynomial(square, ATAN), square), r, r), start)
    return m.signed(y, x)


def atan32(m: Lanes, x: Value) -> Value:
    """atan of float32."""
    wide, z = m.wide(x)
    return m.narrowed(atan64(wide, z))


def _asin(wide: Lanes, z: Value) -> Value:
    product = wide.mul(wide.sub(1.0, z), wide.add(z, 1.0))
    return atan64(wide, wide.div(z, wide.sqrt(product)))


def asin32(m: Lanes, x: Value) -> Value:
    """asin of float32: atan(x / sqrt(1 - x**2))."""
    wide, z = m.wide(x)
    return m.narrowed(_asin(wide, z))


def acos32(m: Lanes, x: Value) -> Value:
    """acos of float32: pi / 2 - asin(x)."""
    wide, z = m.wide(x)
    return m.narrowed(wide.sub(math.pi / 2, _asin(wide, z)))


def atan2_32(m: Lanes, y: Value, x: Value) -> Value:
    """The angle of (x, y), in (-pi, pi]; zeros and infinities as C has them."""
    wide, v = m.wide(y)
    _, u = m.wide(x)
    a, b = wide.abs(v), wide.abs(u)
    steep = wide.less(b, a)
    small, great = wide.where(steep, b, a), wide.where(steep, a, b)
    ratio = wide.div(small, great)
    ratio = wide.where(wide.same(great, 0.0), 0.0, ratio)
    ratio = wide.where(wide.same(small, float("inf")), 1.0, ratio)
    angle = atan64(wide, ratio)
    angle = wide.where(steep, wide.sub(math.pi / 2, angle), angle)
    angle = wide.where(wide.negative(u), wide.sub(math.pi, angle), angle)
    angle = wide.signed(angle, v)
    unknown = m.b.or_(wide.is_nan(u), wide.is_nan(v))
    return m.narrowed(wide.where(unknown, float("nan"), angle))
