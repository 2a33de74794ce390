"""Trigonometric functions and their inverses for float32; tan and atan2 compute in float64."""

from __future__ import annotations

import math

from .exponential import MAGIC32, MAGIC64
from .vector_formulas import Lanes, Value, select_rare

# pi / 2 in three parts; fused multiply-adds make the reduction exact up to the limits below.
HALF_PI_TERMS64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
HALF_PI_TERMS32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
MAX_REDUCIBLE_ANGLE64 = 1e15  # beyond, the C library reduces, lane by lane
MAX_REDUCIBLE_ANGLE32 = 1048576.0
COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(8, 1, -1))  # to float64's last bit
# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2 for r up to 0.83 (over pi / 4),
# near minimax: errors of 0.1 and 0.001 float32 units in the last place.
SIN32 = (-0.00019479789449768176, 0.008331894318506228, -0.1666665036080741)
COS32 = (2.438966748682774e-05, -0.001388692094027602, 0.04166663724955484)
SIN_OF_WIDE = (
    2.7139725840413854e-06, -0.00019838858901452538, 0.00833332784131665, -0.16666666627763682,
)
COS_OF_WIDE = (
    -2.716429579583566e-07, 2.4798926655467124e-05, -0.0013888881342717062, 0.04166666659265175,
)
# (atan(r) - r) / r**3 in r**2 for r up to 1, to a 25th of a unit.
ATAN32 = (
    -0.0018272135950193249, 0.011064444055076408, -0.03145570832890433, 0.05823455865253938,
    -0.0841945978171565, 0.10957576523277066, -0.1426524547614189, 0.1999863863294209,
    -0.3333330186713831,
)
# (asin(r) - r) / r**3 in r**2 for r up to 1 / 2, to a 12th of a unit.
ASIN32 = (
    0.04221856804629434, 0.024147600309000705, 0.04547709898883706, 0.07495241769248476,
    0.16666753927975556,
)
_SIGN = -(1 << 31)


def _sin_of_quarter_turns(m: Lanes, size: Value, turns: int) -> tuple[Value, Value]:
    """Return sin(size + turns * pi / 2) of float32 up to its sign, and the sign as the highest bit
    of an integer. NaN for infinities."""
    b = m.b
    shifted = m.fma(size, 2 / math.pi, MAGIC32)
    n = m.sub(shifted, MAGIC32)
    first = m.fma(n, -HALF_PI_TERMS32[0], size)  # exact
    r = m.fma(n, -HALF_PI_TERMS32[1], first)
    square = m.mul(r, r)
    cube = m.mul(square, r)
    sine = m.add(m.fma(m.polynomial(square, SIN32), cube, m.mul(n, -HALF_PI_TERMS32[2])), r)
    rounded = m.fma(square, -0.5, 1.0)
    rest = m.fma(square, -0.5, m.sub(1.0, rounded))  # its rounding error
    cosine = m.add(m.fma(m.polynomial(square, COS32), m.mul(square, square), rest), rounded)
    quarter = b.add(m.bits(shifted), m.integer(turns)) if turns else m.bits(shifted)
    is_odd = b.icmp_signed("<", b.shl(quarter, m.integer(31)), m.integer(0))
    return b.select(is_odd, cosine, sine), b.shl(quarter, m.integer(30))


def sin32(m: Lanes, x: Value) -> Value:
    """sin of float32."""
    b = m.b
    y, sign = _sin_of_quarter_turns(m, m.abs(x), 0)
    sign = b.and_(b.xor(sign, m.bits(x)), m.integer(_SIGN))
    return _with_libm_for_large(
        m, x, m.floats(b.xor(m.bits(y), sign)), "sinf", MAX_REDUCIBLE_ANGLE32
    )


def cos32(m: Lanes, x: Value) -> Value:
    """cos of float32."""
    b = m.b
    y, sign = _sin_of_quarter_turns(m, m.abs(x), 1)
    sign = b.and_(sign, m.integer(_SIGN))
    return _with_libm_for_large(
        m, x, m.floats(b.xor(m.bits(y), sign)), "cosf", MAX_REDUCIBLE_ANGLE32
    )


def _sin_cos(m: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """Return sin and cos of the remainder after quarter turns, and the number of quarter turns (as
    integers): in float64, precise enough for float32."""
    shifted = m.fma(x, 2 / math.pi, MAGIC64)
    quarter = m.bits(shifted)
    n = m.sub(shifted, MAGIC64)
    r = x
    for part in HALF_PI_TERMS64:
        r = m.fma(n, -part, r)
    square = m.mul(r, r)
    sine = m.fma(m.mul(m.polynomial(square, SIN_OF_WIDE), square), r, r)
    cosine = m.fma(m.polynomial(square, COS_OF_WIDE), m.mul(square, square),
                   m.fma(square, -0.5, 1.0))
    return sine, cosine, quarter


def tan32(m: Lanes, x: Value) -> Value:
    """tan of float32."""
    b = m.b
    double, z = m.wide(x)
    sine, cosine, quarter = _sin_cos(double, z)
    is_odd = b.icmp_unsigned("!=", b.and_(quarter, double.integer(1)), double.integer(0))
    top, bottom = b.select(is_odd, double.neg(cosine), sine), b.select(is_odd, sine, cosine)
    y = double.where(double.equal(double.abs(z), float("inf")), float("nan"),
                     double.div(top, bottom))
    return _with_libm_for_large(m, x, m.narrow(double.where(double.equal(z, 0.0), z, y)), "tanf")


def _with_libm_for_large(
    m: Lanes, x: Value, y: Value, name: str, limit: float = MAX_REDUCIBLE_ANGLE64
) -> Value:
    """Return y, but the C library's result if |x| is too large to reduce exactly here."""
    size = m.abs(x)
    is_large = m.b.and_(m.less(limit, size), m.less(size, float("inf")))
    return select_rare(m, is_large, name, (x,), y)


def _atan(m: Lanes, size: Value) -> Value:
    """atan of numbers from 0 to 1, precise enough for float32."""
    square = m.mul(size, size)
    return m.fma(m.mul(m.polynomial(square, ATAN32), square), size, size)


def atan32(m: Lanes, x: Value) -> Value:
    """atan of float32: beyond 1 it is pi / 2 - atan(1 / x)."""
    size = m.abs(x)
    great = m.less(1.0, size)
    r = m.where(great, m.div(-1.0, size), size)
    square = m.mul(r, r)
    rest = m.where(great, HALF_PI_TERMS32[1], 0.0)
    y = m.add(m.fma(m.mul(m.polynomial(square, ATAN32), square), r, rest), r)
    return m.copysign(m.add(y, m.where(great, HALF_PI_TERMS32[0], 0.0)), x)


def _asin(m: Lanes, size: Value) -> tuple[Value, Value, Value]:
    """Return whether sizes exceed 1 / 2, and asin as a number and a small correction: of the size,
    or of sqrt((1 - size) / 2) if it exceeds 1 / 2."""
    is_outer = m.less(0.5, size)
    square = m.where(is_outer, m.mul(m.sub(1.0, size), 0.5), m.mul(size, size))
    r = m.where(is_outer, m.sqrt(square), size)
    return is_outer, r, m.mul(m.mul(m.polynomial(square, ASIN32), square), r)


def asin32(m: Lanes, x: Value) -> Value:
    """asin of float32: pi / 2 - 2 * asin(sqrt((1 - x) / 2)) above 1 / 2."""
    is_outer, r, rest = _asin(m, m.abs(x))
    turned = m.fma(r, -2.0, HALF_PI_TERMS32[0])
    lost = m.fma(r, -2.0, m.sub(HALF_PI_TERMS32[0], turned))
    turned = m.add(m.fma(rest, -2.0, m.add(lost, HALF_PI_TERMS32[1])), turned)
    return m.copysign(m.where(is_outer, turned, m.add(r, rest)), x)


def acos32(m: Lanes, x: Value) -> Value:
    """acos of float32: 2 * asin(sqrt((1 - x) / 2)) above 1 / 2, pi less that of -x below -1 / 2."""
    is_outer, r, rest = _asin(m, m.abs(x))
    below = m.negative(x)
    y = m.add(r, rest)
    inner = m.sub(HALF_PI_TERMS32[0], m.sub(m.copysign(y, x), HALF_PI_TERMS32[1]))
    twice = m.add(y, y)
    turned = m.sub(2 * HALF_PI_TERMS32[0], m.sub(twice, 2 * HALF_PI_TERMS32[1]))
    return m.where(is_outer, m.where(below, turned, twice), inner)


def atan2_32(m: Lanes, y: Value, x: Value) -> Value:
    """The angle of (x, y), in (-pi, pi]; zeros and infinities as in C."""
    double, v = m.wide(y)
    _, u = m.wide(x)
    a, b = double.abs(v), double.abs(u)
    steep = double.less(b, a)
    small, great = double.where(steep, b, a), double.where(steep, a, b)
    ratio = double.div(small, great)
    ratio = double.where(double.equal(great, 0.0), 0.0, ratio)
    ratio = double.where(double.equal(small, float("inf")), 1.0, ratio)
    angle = _atan(double, ratio)
    angle = double.where(steep, double.sub(math.pi / 2, angle), angle)
    angle = double.where(double.negative(u), double.sub(math.pi, angle), angle)
    angle = double.copysign(angle, v)
    unknown = m.b.or_(double.is_nan(u), double.is_nan(v))
    return m.narrow(double.where(unknown, float("nan"), angle))
