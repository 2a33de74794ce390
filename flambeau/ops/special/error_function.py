"""The error function and its relatives: the normal distribution's integrals and their inverses."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS, MAX_SCIPY_ERF_ELEMENTS
from ...tensor.dtypes import FLOAT32, FLOAT64
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise
from ..core.operator import Array, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample, real_line, unit_interval
from ..native.pointwise import try_kernel
from .kernel_formulas import polynomial, ndtr_of_single, of_single

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def _probabilities(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (3, 4)):
        yield (rng.uniform(0.05, 0.95, shape),), {}


# erf(x) = tanh(x P(x^2)), highest power first: fitted to a relative error of 1e-7. NumPy's tanh is
# fast in float32, does not magnify errors and saturates at exactly 1.
_P = tuple(np.asarray(c, FLOAT32) for c in (
    1.418879094217118e-07, -5.668919584422838e-06, 8.763915684539825e-05, -0.0006197875482030213,
    -0.00019182945834472775, 0.10276905447244644, 1.128379225730896,
))


def erf_block(x: np.ndarray) -> np.ndarray:
    """Compute erf of a small float32 array, within 4 ulp."""
    z = np.multiply(x, x)
    y = np.multiply(z, _P[0])
    for c in _P[1:-1]:
        np.add(y, c, y)
        np.multiply(y, z, y)
    np.add(y, _P[-1], y)
    np.multiply(y, x, y)
    return np.tanh(y, y)


def erf_of(x: np.ndarray) -> np.ndarray:
    """Compute erf of a float32 or float64 array."""
    if x.dtype == FLOAT32 and x.size > MAX_SCIPY_ERF_ELEMENTS:
        return blockwise(erf_block, x)
    if hasattr(x, "erf"):  # one element of a formula
        return x.erf()
    from scipy.special import erf

    return erf(x)


def gauss(x: Tensor) -> Tensor:
    """Compute exp(-x^2) of a tensor."""
    return (-x * x).exp()


@pointwise(ref=np.vectorize(math.erf), samples=real_line, promotion=Promotion.FLOATING,
           aliases=("special.erf",), refuse=dtype_refusals.complex_numbers)
def erf(input: Array) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to input.

    >>> torch.erf(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8427])
    """
    return erf_of(input)


@erf.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * gauss(input) * _TWO_OVER_ROOT_PI


@pointwise(ref=lambda x: 1 - np.vectorize(math.erf)(x), samples=real_line,
           promotion=Promotion.FLOATING, aliases=("special.erfc",),
           refuse=dtype_refusals.complex_numbers)
def erfc(input: Array) -> Array:
    """Complementary error function, 1 - erf(input), accurate for large input.

    >>> torch.erfc(torch.tensor([0., 1.]))
    tensor([1.0000, 0.1573])
    """
    if hasattr(input, "erfc"):  # one element of a formula
        return input.erfc()
    from scipy.special import erfc as of_array

    return of_array(input)


@erfc.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * gauss(input) * -_TWO_OVER_ROOT_PI


def _inverse_erf(y: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri((y + 1) / 2) * np.sqrt(0.5)


# erfinv(x) / x, where w = -log(1 - x^2): in w - 2.5 up to 5, in sqrt(w) - 3.1 from there to the
# last float32 below 1; highest power first, fitted to relative errors of 3e-9.
_NEAR_INVERSE = (
    3.3553205146852084e-10, -8.772819580537324e-09, 1.803734030378075e-08, 4.658920579644431e-07,
    -3.4346125498483753e-06, -4.961911750990902e-06, 0.00021828263338143143,
    -0.0012527446608440226, -0.004177339406705552, 0.24664028763508988, 1.501409353514047,
)
_FAR_INVERSE = (
    -2.8524845133272972e-05, 0.0001313613482230025, -0.000148174712545468, -0.00028841590618730595,
    0.0013274752159639913, -0.002720427094581812, 0.004119166340737279, -0.005695542164528944,
    0.007460269345991533, 1.0033560740200176, 2.9332316696970175,
)


def erfinv_of_single(input: Array) -> Array:
    """Compute erfinv of float32 to 1.2 ulp, evaluating polynomials in float64."""
    w = -np.log((1 - input) * (1 + input))  # infinite at the ends, NaN beyond
    center = polynomial(_NEAR_INVERSE, w.astype(FLOAT64) - 2.5)
    tail = polynomial(_FAR_INVERSE, np.sqrt(w).astype(FLOAT64) - 3.1)
    y = np.where(w < 5, center, tail) * input.astype(FLOAT64)
    return np.where(w < np.inf, y.astype(FLOAT32), w * input)


@pointwise(ref=_inverse_erf, samples=unit_interval, promotion=Promotion.FLOATING,
           aliases=("special.erfinv",), refuse=dtype_refusals.complex_numbers)
def erfinv(input: Array) -> Array:
    """Inverse error function; infinite at -1 and 1, NaN outside.

    >>> torch.erfinv(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.4769])
    """
    if input.__class__ is np.ndarray and input.dtype is FLOAT32 \
            and input.size > MAX_NUMPY_COSTLY_ELEMENTS \
            and (y := try_kernel(erfinv_of_single, input)) is not None:
        return y
    from scipy.special import erfinv as of_array

    return np.copysign(of_array(input), input)  # SciPy's has no zero of negative sign


@erfinv.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    return g * (y * y).exp() / _TWO_OVER_ROOT_PI


def _scaled_erfc(x: np.ndarray) -> np.ndarray:
    from scipy.special import erfc as of_array

    return np.exp(x * x) * of_array(x)


@pointwise(ref=_scaled_erfc, samples=real_line, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialErfcxBackward0")
def erfcx(input: Array) -> Array:
    """Scaled complementary error function, exp(input^2) * erfc(input).

    >>> torch.special.erfcx(torch.tensor([0., 10.]))
    tensor([1.0000, 0.0561])
    """
    from scipy.special import erfcx as of_array

    return of_array(input)


@erfcx.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    return g * (input * y * 2 - _TWO_OVER_ROOT_PI)


# ------------------------------------------------------------------- the normal distribution


def _normal(x: np.ndarray) -> np.ndarray:
    return (1 + np.vectorize(math.erf)(x * np.sqrt(0.5))) / 2


@pointwise(ref=_normal, samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, refuse=dtype_refusals.complex_numbers)
def ndtr(input: Array) -> Array:
    """Standard normal cumulative distribution function.

    >>> torch.special.ndtr(torch.tensor([0., 1.96]))
    tensor([0.5000, 0.9750])
    """
    return of_single(ndtr_of_single, "ndtr", input)


@ndtr.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (input * input * -0.5).exp() / _ROOT_TWO_PI


def _normal_quantile(p: np.ndarray) -> np.ndarray:
    from scipy.special import erfinv as of_array

    return np.sqrt(2) * of_array(2 * p - 1)


@pointwise(ref=_normal_quantile, samples=_probabilities, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialNdtriBackward0")
def ndtri(input: Array) -> Array:
    """Quantile function of the standard normal distribution, the inverse of `ndtr`.

    >>> torch.special.ndtri(torch.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """
    from scipy.special import ndtri as of_array

    return of_array(input)


@ndtri.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * (y * y * 0.5).exp() * _ROOT_TWO_PI


@pointwise(ref=lambda x: np.log(_normal(x)), samples=real_line, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialLogNdtrBackward0")
def log_ndtr(input: Array) -> Array:
    """Logarithm of the standard normal cumulative distribution function.

    >>> torch.special.log_ndtr(torch.tensor([0., -20.]))
    tensor([  -0.6931, -203.9172])
    """
    from scipy.special import log_ndtr as of_array

    return of_array(input)


@log_ndtr.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    # density / area, both scaled by exp(input^2 / 2)
    return g * (2 / _ROOT_TWO_PI) / erfcx(input * -_ROOT_HALF)
