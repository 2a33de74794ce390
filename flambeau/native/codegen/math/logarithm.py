"""log and its kin: the exponent times ln 2, and a series for a mantissa around 1."""

from __future__ import annotations

from .exponential import LN2, LN2_HIGH32, LN2_LOW32
from .vector_formulas import Lanes, Value

# (log(1 + f) - f + f**2 / 2) / f**3 for f in [-0.25, 0.5], by least squares towards minimax.
LOG32 = (
    -0.04507446708878538, 0.10462995713146599, -0.1316119653096201, 0.14478400495873053,
    -0.16647312343585802, 0.19990860860190332, -0.2500009582880468, 0.3333344912045088,
)
ATANH = tuple(2 / k for k in (21, 19, 17, 15, 13, 11, 9, 7, 5, 3))  # of log((1 + s) / (1 - s))
LOG2_E32 = (1.4426950216293335, 1.925963033500011e-08)
LOG10_E32 = (0.4342944920063019, -1.0103049952192578e-08)
LOG10_2_HIGH32, LOG10_2_LOW32 = 0.301025390625, 4.605039066518657e-06  # e times the first is exact
THREE_QUARTERS_BITS = 0x3F400000
INFINITY = float("inf")
NAN = float("nan")


def with_special_cases(m: Lanes, x: Value, y: Value) -> Value:
    """Insert the results at 0, at infinity and below 0."""
    y = m.where(m.equal(x, 0.0), -INFINITY, y)
    y = m.where(m.equal(x, INFINITY), INFINITY, y)
    return m.where(m.less(x, 0.0), NAN, m.where(m.is_nan(x), x, y))


def _split_mantissa(m: Lanes, x: Value) -> tuple[Value, Value]:
    """e and f of x = 2**e * (1 + f) in float32, f in [-0.25, 0.5)."""
    if m.has_permute:
        part = m.mantissa(x)
        return m.sub(m.exponent(x), m.exponent(part)), m.sub(part, 1.0)
    b = m.b
    tiny = m.less(x, 1.17549435e-38)  # denormal: scaled up
    scaled = m.where(tiny, m.mul(x, 8388608.0), x)
    offset = b.sub(m.bits(scaled), m.integer(THREE_QUARTERS_BITS))
    exponent = b.ashr(offset, m.integer(23))
    mantissa = b.add(b.and_(offset, m.integer(0x007FFFFF)), m.integer(THREE_QUARTERS_BITS))
    e = m.sub(b.sitofp(exponent, m.kind), m.where(tiny, 23.0, 0.0))
    return e, m.sub(m.floats(mantissa), 1.0)


def _with_special_cases(m: Lanes, x: Value, y: Value) -> Value:
    return y if m.has_permute else with_special_cases(m, x, y)


def _cubic(m: Lanes, f: Value) -> Value:
    """log(1 + f) - f + f**2 / 2."""
    return m.mul(m.mul(m.polynomial(f, LOG32), f), m.mul(f, f))


def log32(m: Lanes, x: Value) -> Value:
    """log of float32: 1 unit in the last place."""
    e, f = _split_mantissa(m, x)
    y = m.fma(e, LN2_LOW32, _cubic(m, f))
    y = m.add(f, m.fma(m.mul(f, f), -0.5, y))
    return _with_special_cases(m, x, m.fma(e, LN2_HIGH32, y))


def atanh_series(m: Lanes, s: Value) -> Value:
    """log((1 + s) / (1 - s)) for |s| < 0.18."""
    square = m.mul(s, s)
    return m.fma(m.mul(m.polynomial(square, ATANH), square), s, m.mul(s, 2.0))


def split_mantissa_64(m: Lanes, x: Value) -> tuple[Value, Value]:
    """e and s of x = 2**e * (1 + s) / (1 - s) in float64, |s| < 0.18, of normal numbers."""
    b = m.b
    root_half = 0x3FE6A09E667F3BCD
    offset = b.sub(m.bits(x), m.integer(root_half))
    exponent = b.ashr(offset, m.integer(52))
    mantissa = b.add(b.and_(offset, m.integer(0x000FFFFFFFFFFFFF)), m.integer(root_half))
    z = m.floats(mantissa)
    return b.sitofp(exponent, m.kind), m.div(m.sub(z, 1.0), m.add(z, 1.0))


def log64(m: Lanes, x: Value) -> Value:
    """log of float64 values that are 0, infinite or normal; for the wide formulas."""
    e, s = split_mantissa_64(m, x)
    return with_special_cases(m, x, m.fma(e, LN2, atanh_series(m, s)))


def log1p_64(m: Lanes, x: Value) -> Value:
    """log(1 + x) without cancellation near 0."""
    series = atanh_series(m, m.div(x, m.add(x, 2.0)))
    return m.where(m.less(m.abs(x), 0.25), series, log64(m, m.add(x, 1.0)))


def log1p_32(m: Lanes, x: Value) -> Value:
    """log(1 + x) of float32: the rounding error of the sum is added to the logarithm."""
    total = m.add(x, 1.0)
    back = m.sub(total, 1.0)
    lost = m.add(m.sub(1.0, m.sub(total, back)), m.sub(x, back))
    lost = m.div(lost, m.where(m.equal(total, 0.0), 1.0, total))
    lost = m.where(m.less(x, 1e30), lost, 0.0)
    e, f = _split_mantissa(m, total)
    y = m.fma(e, LN2_LOW32, m.add(_cubic(m, f), lost))
    y = m.fma(e, LN2_HIGH32, m.add(f, m.fma(m.mul(f, f), -0.5, y)))
    return m.where(m.equal(x, 0.0), x, _with_special_cases(m, total, y))


def _log_in_base(m: Lanes, f: Value, whole: Value, rest: Value, log: tuple[float, float]) -> Value:
    """whole + rest + log(1 + f) times `log`, a number in two parts; whole is 0 or the greater."""
    high, low = log
    product = m.mul(f, high)
    lost = m.fma(f, low, m.fma(f, high, m.neg(product)))
    curved = m.fma(m.mul(f, f), -0.5, _cubic(m, f))
    total = m.add(whole, product)
    lost = m.add(m.add(lost, rest), m.sub(product, m.sub(total, whole)))
    return m.add(total, m.fma(curved, high, lost))


def log2_32(m: Lanes, x: Value) -> Value:
    """The logarithm to base 2 of float32."""
    e, f = _split_mantissa(m, x)
    return with_special_cases(m, x, _log_in_base(m, f, e, m.number(0.0), LOG2_E32))


def log10_32(m: Lanes, x: Value) -> Value:
    """The logarithm to base 10 of float32."""
    e, f = _split_mantissa(m, x)
    high, rest = m.mul(e, LOG10_2_HIGH32), m.mul(e, LOG10_2_LOW32)
    return with_special_cases(m, x, _log_in_base(m, f, high, rest, LOG10_E32))
