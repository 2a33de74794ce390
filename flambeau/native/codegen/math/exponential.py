"""exp and its kin: 2**n times a polynomial on half an octave around 1."""

from __future__ import annotations

from math import factorial

from .vector_formulas import Lanes, Value

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 in two positive parts, the first short enough that n times it is exact.
LN2_HIGH32, LN2_LOW32 = 0.693145751953125, 1.4286068203094172e-06
LN2_HIGH64, LN2_LOW64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
MAGIC32, MAGIC64 = 12582912.0, 6755399441055744.0  # 1.5 * 2**mantissa: adding rounds to integer

# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2, by least squares towards minimax.
EXP32 = (
    0.0013950476817223187, 0.008368882433815244, 0.041666206013917684, 0.16666518896664817,
    0.5000000095121939,
)
EXP64 = (
    2.760044932735941e-07, 2.763534275543608e-06, 2.4801555339114706e-05, 0.00019841184373976174,
    0.0013888888908100843, 0.008333333371512295, 0.041666666666563726, 0.16666666666610153,
    0.5000000000000014,
)
# The same to the last bit: Taylor's terms.
EXP64_EXACT = tuple(1 / factorial(k) for k in range(13, 1, -1))
EXPM1_NEAR = tuple(1 / f for f in (3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1))


def scale_by_power(m: Lanes, y: Value, n: Value, mantissa: int, zero: Value) -> Value:
    """y * 2**n for integers n, in two steps so that results may be denormal or infinite.

    Where `zero` holds, multiplies by 0: a product that underflows takes a hundred times as long.
    """
    b = m.b
    half = b.ashr(n, m.integer(1))
    bias = m.integer(127 if mantissa == 23 else 1023)
    first, second = (
        m.floats(b.shl(b.add(part, bias), m.integer(mantissa))) for part in (half, b.sub(n, half))
    )
    return m.mul(m.mul(y, first), m.where(zero, 0.0, second))


def exp32(m: Lanes, x: Value) -> Value:
    """exp of float32: 1.1 units in the last place at most."""
    return _exp32(m, x)


def times_exp32(m: Lanes, factor: Value, x: Value, rest: Value) -> Value:
    """factor * exp(x + rest), the rest being small: 1.5 units in the last place at most."""
    return _exp32(m, x, (factor, rest))


def _exp32(m: Lanes, x: Value, parts: tuple[Value, Value] | None = None) -> Value:
    zero = m.less(x, -103.98)
    x = m.where(m.less(89.0, x), 89.0, x)
    if not m.has_permute:
        x = m.where(m.less(x, -104.0), -104.0, x)
    shifted = m.fma(x, LOG2_E, MAGIC32)
    n = m.b.sub(m.bits(shifted), m.integer(0x4B400000))
    integer = m.sub(shifted, MAGIC32)
    r = m.fma(integer, -LN2_LOW32, m.fma(integer, -LN2_HIGH32, x))
    if parts is not None:
        r = m.add(r, parts[1])
    square = m.mul(r, r)
    y = m.fma(_estrin_quartic(m, r, square, EXP32), square, r)
    y = m.add(y, 1.0) if parts is None else m.fma(y, parts[0], parts[0])
    if m.has_permute:
        return m.scale(y, integer, zero)
    return scale_by_power(m, y, n, 23, zero)


def _estrin_quartic(m: Lanes, x: Value, square: Value, terms: tuple[float, ...]) -> Value:
    """A polynomial of degree 4 with a chain of three steps: nobody waits for more."""
    a, b, c, d, e = terms
    return m.fma(m.fma(a, square, m.fma(b, x, c)), square, m.fma(d, x, e))


def exp64_exact(m: Lanes, x: Value) -> Value:
    """exp of float64: 1 unit in the last place at most."""
    return exp64(m, x, EXP64_EXACT)


def exp64(m: Lanes, x: Value, terms: tuple[float, ...] = EXP64) -> Value:
    """exp of float64, to 1e-15 relative; for the wide formulas."""
    zero = m.less(x, -745.2)
    x = m.where(m.less(720.0, x), 720.0, x)
    if not m.has_permute:
        x = m.where(m.less(x, -760.0), -760.0, x)
    shifted = m.fma(x, LOG2_E, MAGIC64)
    n = m.b.sub(m.bits(shifted), m.integer(0x4338000000000000))
    integer = m.sub(shifted, MAGIC64)
    r = m.fma(integer, -LN2_LOW64, m.fma(integer, -LN2_HIGH64, x))
    y = m.add(m.fma(m.polynomial(r, terms), m.mul(r, r), r), 1.0)
    if m.has_permute:
        return m.scale(y, integer, zero)
    return scale_by_power(m, y, n, 52, zero)


def exp2_32(m: Lanes, x: Value) -> Value:
    """2**x of float32."""
    double, z = m.wide(x)
    return m.narrow(exp64(double, double.mul(z, LN2)))


def expm1_64(m: Lanes, x: Value) -> Value:
    """exp(x) - 1 without cancellation near 0."""
    series = m.mul(m.polynomial(x, EXPM1_NEAR), x)
    return m.where(m.less(m.abs(x), 0.3), series, m.sub(exp64(m, x), 1.0))


def expm1_32(m: Lanes, x: Value) -> Value:
    """exp(x) - 1 of float32."""
    double, z = m.wide(x)
    return m.narrow(expm1_64(double, z))
