"""Special functions of float32 as formulas for kernels, worked out in float64 and rounded once.

Polynomials have the highest power first and were fitted at Chebyshev's points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import FLOAT32, FLOAT64
from ..native.pointwise import try_kernel
from .scipy_special import get_special_function

_HALF_LOG_TWO_PI = math.log(2 * math.pi) / 2
_ROOT_HALF = math.sqrt(0.5)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
# lgamma(c) / ((c - 1) (c - 2)) in c - 2 for c in [1.5, 2.5], to 4e-13.
_BETWEEN = (
    9.871318664984116e-06, -2.1167817767198412e-05, 3.7634424327752805e-05, -8.195910886081863e-05,
    0.0001826342028745635, -0.0004058807427474379, 0.0009153709191354212, -0.002108118076516152,
    0.004998641353235662, -0.012384192594027264, 0.032965000619469075, -0.10031730167076952,
    0.42278433509846713,
)
# What Stirling's formula and log(b) - 1 / (2 b) leave, times b and b**2, in b**-2 - 1 / 128 for
# b from 8 on, to 2e-16.
_STIRLING = (
    0.005065905360081594, -0.0016529186801149014, 0.0007722649744255219, -0.0005700461303158175,
    0.0007799993568819701, -0.0027654844046068367, 0.08331168010429299,
)
_DIGAMMA = (
    0.0636215057690509, -0.017715729264901583, 0.006821421712410237, -0.003942055828023648,
    0.0038732758683103635, -0.008272078233538906, 0.08326846941005878,
)
# digamma(x) / (x - _ROOT) in x - 1.5 for x in [1, 2], to 3e-11.
_ROOT = 1.4616321449683622
_AROUND_ROOT = (
    -0.0035191575394071706, 0.005280008892140368, -0.004843948067187809, 0.007272860198091768,
    -0.011985325834114543, 0.018022924420212198, -0.02696891090160945, 0.040750504128763916,
    -0.061922423533269114, 0.09498915988298229, -0.14840491849208132, 0.24054247739744206,
    -0.42362742129311104, 0.9510558760493102,
)
# sin(pi r) / r and cos(pi r) in r**2 - 1 / 8 for |r| <= 1 / 2, to 3e-16.
_SINE = (
    7.697826768224191e-07, -2.1133714397803598e-05, 0.00044747103617065145, -0.007027808533771898,
    0.07764717237241964, -0.5593251868104976, 2.332998758213981, -4.557629442461073,
    2.534324262661598,
)
_COSINE = (
    4.149564353942586e-06, -0.0001004169890335448, 0.0018398759726725115, -0.024393578574369974,
    0.21964648723144034, -1.2215552932734322, 3.5795537935550628, -3.980907242696023,
    0.4440158403262132,
)
# exp(-x) I0(x) and exp(-x) I1(x) / x in x - 4 for x in [0, 8], times the root of x in
# 1 / x - 1 / 16 from there on, to 3e-9.
_I0_NEAR = (
    4.888659733445462e-15, -4.9526145313064825e-14, 1.0934306148407198e-13, -7.075227130320093e-13,
    1.5134564215958254e-11, -1.1935606012753263e-10, 6.95087555861964e-10, -4.49779653272385e-09,
    2.8893860370997204e-08, -1.6522901031148365e-07, 8.659227118523324e-07, -4.239777522649671e-06,
    1.93551621549571e-05, -8.298149374033781e-05, 0.00034118443486552235, -0.0013912951435466627,
    0.005907226993376396, -0.028251084027160665, 0.2070019212239867,
)
_I0_FAR = (
    9.029041910927784, 1.8304333466274534, 0.3185920870888115, 0.09669677125599896,
    0.04563575680852321, 0.03487165640564403, 0.053768832502241015, 0.4021765094053054,
)
_I1_NEAR = (
    6.691414677740494e-16, -7.191718205738313e-15, 2.33948047923691e-14, -1.892245887997763e-13,
    2.9782443631160187e-12, -2.5296663810669414e-11, 1.7696970807005728e-10,
    -1.2942110670554329e-09, 9.153967632694231e-09, -5.956203322458074e-08, 3.6136770198579895e-07,
    -2.054530266772679e-06, 1.0906983309425924e-05, -5.398563515511059e-05, 0.000249091324684746,
    -0.0010700396060812638, 0.004253600020008699, -0.01528108480555328, 0.044687709875608835,
)
_I1_FAR = (
    -10.161899277741165, -2.0666878765014927, -0.37205525570869374, -0.1196036547354632,
    -0.06159174510102916, -0.0561247706512126, -0.1559932358610469, 0.3893984590744713,
)


def of_single(formula: Callable, name: str, x: np.ndarray) -> np.ndarray:
    """Apply a formula to a large float32 array if a kernel exists, else SciPy's function."""
    if x.__class__ is np.ndarray and x.dtype is FLOAT32 and x.size > MAX_NUMPY_COSTLY_ELEMENTS \
            and (y := try_kernel(formula, x)) is not None:
        return y
    return get_special_function(name)(x)


def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    y = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        y = y * x + coefficient
    return y


def _sine(r: Any) -> Any:
    """sin(pi r) for |r| <= 1 / 2."""
    return polynomial(_SINE, r * r - 0.125) * r


def lgamma_of_single(input: Any) -> Any:
    """log |gamma|: a polynomial up to 2.5, Stirling's formula from 8 on.

    The recurrence covers the gap; arguments below 1 / 2 are reflected.
    """
    x = input.astype(FLOAT64)
    below = x < 0.5
    a = np.where(below, 1 - x, x)
    steps = a * (a + 1) * (a + 2) * ((a + 3) * (a + 4) * (a + 5))
    shifted = np.where(a < 8, a + 6, a)
    stirling = (shifted - 0.5) * np.log(shifted) - shifted + _HALF_LOG_TWO_PI
    stirling = stirling + polynomial(_STIRLING, 1 / (shifted * shifted) - 0.0078125) / shifted
    c = np.where(a < 1.5, a + 1, a)
    between = (c - 1) * (c - 2) * polynomial(_BETWEEN, c - 2)
    product = np.where(a < 1.5, a, np.where(a < 2.5, 1.0, np.where(a < 8, steps, 1.0)))
    magnitude = np.where(a < 2.5, between, stirling)
    sine = abs(_sine(x - np.rint(x)))  # 0 at the poles
    rest = np.log(np.where(below, product * math.pi / sine, product))
    y = np.where(below, rest - magnitude, magnitude - rest)
    return np.where(abs(x) == np.inf, np.inf, y).astype(FLOAT32)


def digamma_of_single(input: Any) -> Any:
    """lgamma's derivative: a series from 8 on, the recurrence below it.

    Arguments below 1 / 2 are reflected; infinite at 0 and NaN at the other poles.
    """
    x = input.astype(FLOAT64)
    below = x < 0.5
    a = np.where(below, 1 - x, x)
    over, under = 1.0, a  # the sum of 1 / (a + k), as one fraction
    for k in range(1, 8):
        over, under = over * (a + k) + under, under * (a + k)
    shifted = np.where(a < 8, a + 8, a)
    inverse = 1 / shifted
    square = inverse * inverse
    y = np.log(shifted) - inverse * 0.5 - square * polynomial(_DIGAMMA, square - 0.0078125)
    y = y - np.where(a < 8, over / under, 0.0)
    around = (a - _ROOT) * polynomial(_AROUND_ROOT, a - 1.5)
    y = np.where((x - 1) * (x - 2) <= 0, around, y)
    r = x - np.rint(x)
    slope = polynomial(_COSINE, r * r - 0.125) * math.pi / np.where(r == 0, np.nan, _sine(r))
    y = np.where(below, y - slope, y)
    pole = np.copysign(np.inf, -x)
    y = np.where(x == 0, pole, np.where(x == np.inf, x, y))
    return y.astype(FLOAT32)


def ndtr_of_single(input: Any) -> Any:
    """Normal distribution function by erfc in float32.

    The rounding error of its argument is corrected by erfc's slope.
    """
    exact = input.astype(FLOAT64) * -_ROOT_HALF
    x = exact.astype(FLOAT32)
    lost = np.where(abs(x) < 20, exact - x.astype(FLOAT64), 0.0).astype(FLOAT32)
    area = x.erfc() if hasattr(x, "erfc") else get_special_function("erfc")(x)
    return 0.5 * (area - np.exp(-(x * x)) * lost * _TWO_OVER_ROOT_PI)


def _scaled_i0(size: Any) -> Any:
    """exp(-x) I0(x) for x >= 0."""
    small = polynomial(_I0_NEAR, np.minimum(size, 8.0) - 4)
    large = polynomial(_I0_FAR, 1 / np.maximum(size, 8.0) - 0.0625) / np.sqrt(size)
    return np.where(size < 8, small, large)


def _scaled_i1(x: Any) -> Any:
    """exp(-|x|) I1(x)."""
    size = abs(x)
    small = x * polynomial(_I1_NEAR, np.minimum(size, 8.0) - 4)
    large = polynomial(_I1_FAR, 1 / np.maximum(size, 8.0) - 0.0625) / np.sqrt(size)
    return np.where(size < 8, small, np.copysign(large, x))


def i0e_of_single(input: Any) -> Any:
    """Modified Bessel function of order 0, scaled by exp(-|x|)."""
    return _scaled_i0(abs(input.astype(FLOAT64))).astype(FLOAT32)


def i0_of_single(input: Any) -> Any:
    """Modified Bessel function of order 0; NaN at infinity, as in PyTorch."""
    size = abs(input.astype(FLOAT64))
    return (np.exp(size) * _scaled_i0(size)).astype(FLOAT32)


def i1e_of_single(input: Any) -> Any:
    """Modified Bessel function of order 1, scaled by exp(-|x|)."""
    return _scaled_i1(input.astype(FLOAT64)).astype(FLOAT32)


def i1_of_single(input: Any) -> Any:
    """Modified Bessel function of order 1; NaN at infinity, as in PyTorch."""
    x = input.astype(FLOAT64)
    return (np.exp(abs(x)) * _scaled_i1(x)).astype(FLOAT32)
