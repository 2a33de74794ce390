"""The error function and, in float32, its complement."""

from __future__ import annotations

import math

import numpy as np

from ..llvm.libm_calls import call_per_lane
from .exponential import exp32, exp64, times_exp32
from .piecewise_polynomial import PiecewiseTable32, PiecewiseTable64
from .vector_formulas import Lanes, Value

# By least squares towards minimax: erf(x) / x - 1 in x**2 for |x| < 0.925; -log(erfc(x)) from
# there to 4.1; log(erfc(x) * exp(x**2) / t) in t = 2 / (2 + x) for t in [0.15, 1].
ERF_NEAR_ZERO = (
    8.377591215194836e-05, -0.0008145078064381212, 0.005201304796693182, -0.026859539110067495,
    0.11283698732182078, -0.3761263400458978, 0.128379166673604,
)
ERFC_EXPONENT = (
    2.116190542801639e-05, -0.00043521887453600857, 0.004174642968804805, -0.0251286244625231,
    0.10829394644591053, 0.6333346531681392, 1.1295208232632938, -0.0001758745484607971,
)
ERFC_SCALED = (
    -0.18013749629634482, 1.4385338570068733, -5.035361944200685, 10.028465575438371,
    -12.31774852806557, 9.495977086800442, -4.6544756062515145, 1.6677241603675688,
    -0.4406055307326315, -0.1128909607732441, -0.08031708079983692, 0.08102695465486655,
    0.37534698484843576, 0.9999738351241543, -1.2655113071422157,
)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _compute_taylor_coefficients(x: float) -> list[float]:
    """erf's derivatives over the factorials, by the recurrence of Hermite's polynomials."""
    slopes = [TWO_OVER_ROOT_PI * math.exp(-x * x)]
    slopes.append(-2 * x * slopes[0])
    for k in range(2, 30):  # of exp(-x**2): (n + 1) c[n+1] = -2 (at c[n] + c[n-1])
        slopes.append(-2 * (x * slopes[k - 1] + slopes[k - 2]) / k)
    return [math.erf(x), *[c / (k + 1) for k, c in enumerate(slopes)]]


def _erfcx(x: float) -> float:
    """erfc(x) * exp(x**2), an integral: of exp(-t**2 - 2xt) over t from 0 on."""
    points, weights = np.polynomial.legendre.leggauss(100)
    t = 3.2 * (points + 1)
    return TWO_OVER_ROOT_PI * 3.2 * float(weights @ np.exp(-t * (t + 2 * x)))


ERF_TABLE = PiecewiseTable32(math.erf, TWO_OVER_ROOT_PI, 67 / 512, 5)
ERF_TABLE_AVX2 = PiecewiseTable32(math.erf, TWO_OVER_ROOT_PI, 17 / 32, 7, 8)
ERF_TABLE64 = PiecewiseTable64(_compute_taylor_coefficients, 49 / 128, 13)
ERFC_TABLE = PiecewiseTable32(_erfcx, None, 83 / 256, 6)


def erf32(m: Lanes, x: Value) -> Value:
    """erf of float32."""
    if m.permute_width:
        return (ERF_TABLE if m.has_permute else ERF_TABLE_AVX2).emit(m, x)
    size = m.abs(x)
    center = m.fma(m.polynomial(m.mul(x, x), ERF_NEAR_ZERO), x, x)
    clamped = m.where(m.less(4.1, size), 4.1, size)
    tail = m.sub(1.0, exp32(m, m.neg(m.polynomial(clamped, ERFC_EXPONENT))))
    return m.where(m.less(size, 0.925), center, m.copysign(tail, x))


def erf64(m: Lanes, x: Value) -> Value:
    """erf of float64."""
    if m.has_permute:
        return ERF_TABLE64.emit(m, x)
    return call_per_lane(m.b, "erf", (x,), m.lanes)


def erfc32(m: Lanes, x: Value) -> Value:
    """1 - erf of float32, accurate where it is small."""
    if not m.has_permute:
        return _erfc_in_double(m, x)
    size = m.abs(x)
    first, slope, r = ERFC_TABLE.at(m, size)
    clamped = m.where(m.less(10.3, size), 10.3, size)
    square = m.mul(clamped, clamped)
    rest = m.fma(clamped, m.neg(clamped), square)
    y = times_exp32(m, m.fma(slope, r, first), m.neg(square), rest)
    return m.where(m.less(x, 0.0), m.sub(2.0, y), y)


def _erfc_in_double(m: Lanes, x: Value) -> Value:
    double, z = m.wide(x)
    size = double.abs(z)
    clamped = double.where(double.less(10.6, size), 10.6, size)
    t = double.div(2.0, double.add(clamped, 2.0))
    exponent = double.fma(double.neg(size), size, double.polynomial(t, ERFC_SCALED))
    y = double.mul(t, exp64(double, exponent))
    return m.narrow(double.where(double.less(z, 0.0), double.sub(2.0, y), y))
