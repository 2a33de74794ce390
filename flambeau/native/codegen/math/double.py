"""Functions of float64 to 2 units in the last place (log2 and tan: 2.2).

Rounding errors are carried as a second number. exp is in exponential.py. Angles beyond
MAX_REDUCIBLE_ANGLE go to the C library, lane by lane.
"""

from __future__ import annotations

import math

from .exponential import EXP64_EXACT, LN2, LN2_HIGH64, LN2_LOW64, LOG2_E, MAGIC64, scale_by_power
from .logarithm import ATANH, with_special_cases
from .trigonometric import COS, HALF_PI_TERMS64
from .vector_formulas import Lanes, Value, select_rare

MAX_REDUCIBLE_ANGLE = 1e8
LN2_LOW = 2.3190468138462996e-17  # what ln 2 has beyond 53 bits, and so on
LOG2_E_LOW = 2.0355273740931033e-17
LOG10_E, LOG10_E_LOW = 0.4342944819032518, 1.098319650216765e-17
LOG10_2_HIGH, LOG10_2_LOW = 0.30102999566361177, 3.694239077158931e-13  # n times the first is exact
HALF_PI_LOW, PI_LOW = 6.123233995736766e-17, 1.2246467991473532e-16
_THREE_QUARTERS_BITS = 0x3FE8000000000000
SINH = tuple(1 / math.factorial(2 * k + 1) for k in range(9, 0, -1))
SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
# (atan(r) / r - 1) / r**2 in r**2 for r up to tan(pi / 8), through Chebyshev's points.
ATAN = (
    0.01621633956613047, -0.03449828882230317, 0.045482758186568856, -0.05229573202007947,
    0.05878779782287896, -0.06666408165583262, 0.07692295132269264, -0.09090908693883672,
    0.11111111103427536, -0.14285714285633505, 0.1999999999999966, -0.3333333333333333,
)
# (asin(r) / r - 1) / r**2 in r**2 for r up to 1 / 2, likewise.
ASIN = (
    0.028832893594317028, -0.014972965521837729, 0.01748772468844331, 0.005421024641524443,
    0.010332764243234753, 0.011477332651496454, 0.013971449456693546, 0.017352371833886156,
    0.02237217418445693, 0.030381944091058346, 0.04464285714742562, 0.07499999999997226,
    0.1666666666666667,
)

# ------------------------------------------------------------------------------- logarithms


def _split_mantissa(m: Lanes, x: Value) -> tuple[Value, Value]:
    """e and f of x = 2**e * (1 + f), f in [-0.25, 0.5)."""
    if m.has_permute:
        part = m.mantissa(x)
        return m.sub(m.exponent(x), m.exponent(part)), m.sub(part, 1.0)
    b = m.b
    tiny = m.less(x, 2.2250738585072014e-308)  # denormal: scaled up
    offset = b.sub(m.bits(m.where(tiny, m.mul(x, 2.0**54), x)), m.integer(_THREE_QUARTERS_BITS))
    exponent = b.ashr(offset, m.integer(52))
    mantissa = b.add(b.and_(offset, m.integer(0x000FFFFFFFFFFFFF)), m.integer(_THREE_QUARTERS_BITS))
    e = m.sub(b.sitofp(exponent, m.kind), m.where(tiny, 54.0, 0.0))
    return e, m.sub(m.floats(mantissa), 1.0)


def _log1p_series(m: Lanes, f: Value, rest: Value) -> Value:
    """log(1 + f) + rest, the rest being small."""
    s = m.div(f, m.add(f, 2.0))
    square, half = m.mul(s, s), m.mul(m.mul(f, f), 0.5)
    series = m.mul(m.polynomial(square, ATANH), square)
    return m.sub(f, m.sub(half, m.fma(s, m.add(half, series), rest)))


def _with_special_cases(m: Lanes, x: Value, y: Value) -> Value:
    return y if m.has_permute else with_special_cases(m, x, y)


def log(m: Lanes, x: Value) -> Value:
    """log of float64."""
    e, f = _split_mantissa(m, x)
    return _with_special_cases(m, x, m.fma(e, LN2_HIGH64, _log1p_series(m, f, m.mul(e, LN2_LOW64))))


def log1p(m: Lanes, x: Value) -> Value:
    """log(1 + x): the rounding error of the sum is added to the logarithm."""
    total = m.add(x, 1.0)
    back = m.sub(total, 1.0)
    lost = m.add(m.sub(1.0, m.sub(total, back)), m.sub(x, back))
    lost = m.div(lost, m.where(m.equal(total, 0.0), 1.0, total))
    lost = m.where(m.less(x, 1e300), lost, 0.0)
    e, f = _split_mantissa(m, total)
    y = m.fma(e, LN2_HIGH64, _log1p_series(m, f, m.fma(e, LN2_LOW64, lost)))
    return m.where(m.equal(x, 0.0), x, _with_special_cases(m, total, y))


def log2(m: Lanes, x: Value) -> Value:
    """The logarithm to base 2."""
    e, f = _split_mantissa(m, x)
    natural = _log1p_series(m, f, m.number(0.0))
    product = m.mul(natural, LOG2_E)
    rest = m.fma(natural, LOG2_E_LOW, m.fma(natural, LOG2_E, m.neg(product)))
    return _with_special_cases(m, x, m.add(e, m.add(product, rest)))


def log10(m: Lanes, x: Value) -> Value:
    """The logarithm to base 10."""
    e, f = _split_mantissa(m, x)
    natural = _log1p_series(m, f, m.number(0.0))
    low = m.fma(natural, LOG10_E_LOW, m.mul(e, LOG10_2_LOW))
    return _with_special_cases(m, x, m.fma(e, LOG10_2_HIGH, m.fma(natural, LOG10_E, low)))


# ------------------------------------------------------------------------------ exponentials


def _scale_by_power(m: Lanes, y: Value, n: Value, zero: Value) -> Value:
    """y * 2**n for whole floats n; 0 where `zero`."""
    if m.has_permute:
        return m.scale(y, n, zero)
    exponent = m.b.sub(m.bits(m.add(n, MAGIC64)), m.integer(0x4338000000000000))
    return scale_by_power(m, y, exponent, 52, zero)


def exp2(m: Lanes, x: Value) -> Value:
    """2**x."""
    zero = m.less(x, -1075.5)
    x = m.clamp(x, -1080.0, 1030.0)
    n = m.sub(m.add(x, MAGIC64), MAGIC64)
    r = m.sub(x, n)
    t = m.mul(r, LN2)
    rest = m.fma(r, LN2_LOW, m.fma(r, LN2, m.neg(t)))
    y = m.add(m.add(m.fma(m.polynomial(t, EXP64_EXACT), m.mul(t, t), rest), t), 1.0)
    return _scale_by_power(m, y, n, zero)


def _reduce_argument(m: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """n, r and what r lost, of x = n * ln 2 + r."""
    n = m.sub(m.fma(x, LOG2_E, MAGIC64), MAGIC64)
    first = m.fma(n, -LN2_HIGH64, x)
    r = m.fma(n, -LN2_LOW64, first)
    return n, r, m.fma(n, -LN2_LOW64, m.sub(first, r))


def expm1(m: Lanes, x: Value) -> Value:
    """exp(x) - 1: the sum of exp(r) - 1, times a power of 2, and of that power less 1."""
    n, r, lost = _reduce_argument(m, m.clamp(x, -40.0, 710.0))
    rest = m.add(m.fma(m.polynomial(r, EXP64_EXACT), m.mul(r, r), lost), r)
    place = m.b.add(m.bits(m.add(n, MAGIC64)), m.integer(1022 - 0x4338000000000000))
    half = m.floats(m.b.shl(place, m.integer(52)))  # 2**(n - 1), so that 2**1024 is no case
    y = m.fma(half, rest, m.sub(half, 0.5))
    return m.where(m.less(m.abs(x), 1e-300), x, m.add(y, y))


def _half_exp(m: Lanes, x: Value) -> Value:
    """exp(x) / 2 for x not below 0."""
    n, r, lost = _reduce_argument(m, m.where(m.less(720.0, x), 720.0, x))
    y = m.add(m.add(m.fma(m.polynomial(r, EXP64_EXACT), m.mul(r, r), lost), r), 1.0)
    return _scale_by_power(m, y, m.sub(n, 1.0), m.less(x, -1.0))


def tanh(m: Lanes, x: Value) -> Value:
    """tanh, of (e - 1) / (e + 1) for e = exp(2 * x)."""
    size = m.abs(x)
    clamped = m.where(m.less(20.0, size), 20.0, size)
    e = expm1(m, m.add(clamped, clamped))
    below = m.add(e, 2.0)
    lost = m.add(m.sub(2.0, below), e)  # of the sum, where that matters: for e up to 2
    inverse = m.div(1.0, below)
    y = m.mul(e, inverse)
    rest = m.fma(m.neg(y), m.where(m.less(e, 2.0), lost, 0.0), m.fma(m.neg(y), below, e))
    return m.copysign(m.fma(rest, inverse, y), x)


def sinh(m: Lanes, x: Value) -> Value:
    """sinh: a series, from 1 on of exp(x)."""
    size = m.abs(x)
    square, half = m.mul(size, size), _half_exp(m, size)
    series = m.fma(m.mul(m.polynomial(square, SINH), square), size, size)
    return m.copysign(m.where(m.less(size, 1.0), series, m.sub(half, m.div(0.25, half))), x)


def cosh(m: Lanes, x: Value) -> Value:
    """cosh."""
    half = _half_exp(m, m.abs(x))
    return m.add(half, m.div(0.25, half))


# --------------------------------------------------------------------------- trigonometry


def _sin_cos(m: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """sin and cos of the rest after quarter turns, and the number of these (as integers)."""
    shifted = m.fma(x, 2 / math.pi, MAGIC64)
    n = m.sub(shifted, MAGIC64)
    first = m.fma(n, -HALF_PI_TERMS64[0], x)  # exact
    second = m.mul(n, HALF_PI_TERMS64[1])
    r = m.sub(first, second)
    back = m.sub(r, first)
    lost = m.sub(m.sub(first, m.sub(r, back)), m.add(second, back))
    lost = m.sub(lost, m.fma(n, HALF_PI_TERMS64[2], m.fma(n, HALF_PI_TERMS64[1], m.neg(second))))
    square = m.mul(r, r)
    half = m.mul(square, 0.5)
    sine = m.add(m.fma(m.mul(m.polynomial(square, SIN), square), r, lost), r)
    rounded = m.sub(1.0, half)
    rest = m.fma(m.polynomial(square, COS), m.mul(square, square), m.neg(m.mul(r, lost)))
    cosine = m.add(rounded, m.add(m.sub(m.sub(1.0, rounded), half), rest))
    return sine, cosine, m.bits(shifted)


def _with_libm_for_large(m: Lanes, x: Value, y: Value, name: str) -> Value:
    """y, but for great angles the C library's result; NaN at infinities."""
    size = m.abs(x)
    y = m.where(m.equal(size, float("inf")), float("nan"), y)
    is_large = m.b.and_(m.less(MAX_REDUCIBLE_ANGLE, size), m.less(size, float("inf")))
    return select_rare(m, is_large, name, (x,), y)


def _sin_of_quarter_turns(m: Lanes, x: Value, turns: int) -> Value:
    """sin(x + turns quarter turns)."""
    b = m.b
    sine, cosine, quarter = _sin_cos(m, x)
    quarter = b.add(quarter, m.integer(turns))
    is_odd = b.icmp_unsigned("!=", b.and_(quarter, m.integer(1)), m.integer(0))
    flip = b.icmp_unsigned("!=", b.and_(quarter, m.integer(2)), m.integer(0))
    y = b.select(is_odd, cosine, sine)
    return b.select(flip, m.neg(y), y)


def sin(m: Lanes, x: Value) -> Value:
    """sin."""
    return _with_libm_for_large(
        m, x, m.where(m.equal(x, 0.0), x, _sin_of_quarter_turns(m, x, 0)), "sin"
    )


def cos(m: Lanes, x: Value) -> Value:
    """cos."""
    return _with_libm_for_large(m, x, _sin_of_quarter_turns(m, x, 1), "cos")


def tan(m: Lanes, x: Value) -> Value:
    """tan."""
    b = m.b
    sine, cosine, quarter = _sin_cos(m, x)
    is_odd = b.icmp_unsigned("!=", b.and_(quarter, m.integer(1)), m.integer(0))
    top, bottom = b.select(is_odd, m.neg(cosine), sine), b.select(is_odd, sine, cosine)
    return _with_libm_for_large(m, x, m.where(m.equal(x, 0.0), x, m.div(top, bottom)), "tan")


def _odd_series(m: Lanes, r: Value, terms: tuple[float, ...], rest: Value) -> Value:
    """r + r**3 times a polynomial in r**2, and a small rest."""
    square = m.mul(r, r)
    return m.add(m.fma(m.mul(m.polynomial(square, terms), square), r, rest), r)


def _atan_of(m: Lanes, size: Value) -> Value:
    """atan of a number not below 0."""
    great, middle = m.less(2.414213562373095, size), m.less(0.41421356237309503, size)
    top = m.where(great, -1.0, m.where(middle, m.sub(size, 1.0), size))
    bottom = m.where(great, size, m.where(middle, m.add(size, 1.0), 1.0))
    start, rest = (
        m.where(great, value, m.where(middle, value / 2, 0.0))
        for value in (math.pi / 2, HALF_PI_LOW)
    )
    return m.add(start, _odd_series(m, m.div(top, bottom), ATAN, rest))


def atan(m: Lanes, x: Value) -> Value:
    """atan."""
    return m.copysign(_atan_of(m, m.abs(x)), x)


def atan2(m: Lanes, y: Value, x: Value) -> Value:
    """The angle of (x, y), in (-pi, pi]; zeros and infinities as C has them."""
    a, b = m.abs(y), m.abs(x)
    steep = m.less(b, a)
    small, great = m.where(steep, b, a), m.where(steep, a, b)
    ratio = m.div(small, m.where(m.equal(great, 0.0), 1.0, great))
    ratio = m.where(m.equal(small, float("inf")), 1.0, ratio)
    angle = _atan_of(m, ratio)
    angle = m.where(steep, m.sub(math.pi / 2, m.sub(angle, HALF_PI_LOW)), angle)
    angle = m.where(m.negative(x), m.sub(math.pi, m.sub(angle, PI_LOW)), angle)
    angle = m.copysign(angle, y)
    unknown = m.b.or_(m.is_nan(x), m.is_nan(y))
    return m.where(unknown, float("nan"), angle)


def _twice_asin(m: Lanes, size: Value) -> Value:
    """2 * asin(sqrt((1 - size) / 2)), which is acos(size), for sizes from 1 / 2 on."""
    square = m.mul(m.sub(1.0, size), 0.5)
    root = m.sqrt(square)
    twice = m.add(root, m.where(m.equal(root, 0.0), 1.0, root))
    lost = m.div(m.fma(m.neg(root), root, square), twice)
    y = m.add(m.fma(m.mul(m.polynomial(square, ASIN), square), root, lost), root)
    return m.add(y, y)


def asin(m: Lanes, x: Value) -> Value:
    """asin."""
    size = m.abs(x)
    inner = _odd_series(m, size, ASIN, m.number(0.0))
    outer = m.sub(math.pi / 2, m.sub(_twice_asin(m, size), HALF_PI_LOW))
    return m.copysign(m.where(m.less(size, 0.5), inner, outer), x)


def acos(m: Lanes, x: Value) -> Value:
    """acos."""
    size = m.abs(x)
    inner = m.sub(math.pi / 2, m.sub(_odd_series(m, x, ASIN, m.number(0.0)), HALF_PI_LOW))
    outer = _twice_asin(m, size)
    outer = m.where(m.less(x, 0.0), m.sub(math.pi, m.sub(outer, PI_LOW)), outer)
    return m.where(m.less(size, 0.5), inner, outer)
