"""The Gaussian error linear unit, exact and by tanh (Hendrycks and Gimpel 2016)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ...native.target.eager_costs import BLOCK_ELEMENTS
from ...tensor.dtypes import BOOL, COMPLEX, FLOAT32, INTEGER
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise
from ..core.operator import Array
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line
from ..special.error_function import erf_block, erf_of

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_CUBIC = 0.044715


def _normal_area(x: np.ndarray) -> np.ndarray:
    """The area under the standard normal density up to x."""
    big = x.dtype == FLOAT32 and x.size == BLOCK_ELEMENTS
    y = (erf_block if big else erf_of)(x * _ROOT_HALF)
    y += 1
    y *= 0.5
    return y


def _exact(x: np.ndarray) -> np.ndarray:
    return x * _normal_area(x)


def _by_tanh(x: np.ndarray) -> np.ndarray:
    return x * _tanh_area(x)


def _tanh_area(x: np.ndarray) -> np.ndarray:
    y = x * x
    y = y * (_CUBIC * _ROOT_TWO_OVER_PI) + _ROOT_TWO_OVER_PI
    y = np.tanh(y * x)
    return y * 0.5 + 0.5


def _check(approximate: str) -> bool:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "tanh"


def _gelu_ref(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    if approximate == "tanh":
        return x / (1 + np.exp(-2 * _ROOT_TWO_OVER_PI * (x + _CUBIC * x**3)))
    return x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2


def _double_samples(
    samples: Callable[[Rng], Iterator[Sample]]
) -> Callable[[Rng], Iterator[Sample]]:
    def generate(rng: Rng) -> Iterator[Sample]:
        for args, _ in samples(rng):
            yield args, {"approximate": "none"}
            yield args, {"approximate": "tanh"}

    return generate


@pointwise(ref=_gelu_ref, samples=_double_samples(real_line), expose=("nn.functional",),
           inplace=False,
           refuse=dtype_refusals.Refusal(
               BOOL, INTEGER, COMPLEX, error=dtype_refusals.as_kernel("GeluKernelImpl")))
def gelu(input: Array, *, approximate: str = "none") -> Array:
    """Apply the Gaussian error linear unit: input times the standard normal CDF of input.

    `approximate="tanh"` is cheaper.

    >>> torch.nn.functional.gelu(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8413])
    """
    return blockwise(_by_tanh if _check(approximate) else _exact, input)


@gelu.vjp
def _(g: Tensor, input: Tensor, approximate: str) -> Tensor:
    return gelu_backward(g, input, approximate=approximate)


def _exact_slope(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    density = np.exp(x * x * -0.5) * _DENSITY
    return grad * (_normal_area(x) + x * density)


def _tanh_slope(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    area = _tanh_area(x)
    inner = (x * x * (3 * _CUBIC) + 1) * (2 * _ROOT_TWO_OVER_PI)
    return grad * (area + x * area * (1 - area) * inner)


def _slope_ref(g: np.ndarray, x: np.ndarray, approximate: str = "none") -> np.ndarray:
    step = 1e-6
    return g * (_gelu_ref(x + step, approximate) - _gelu_ref(x - step, approximate)) / (2 * step)


@pointwise(ref=_slope_ref, samples=_double_samples(pairs_nonzero), expose=("aten",), inplace=False)
def gelu_backward(grad: Array, input: Array, *, approximate: str = "none") -> Array:
    """Return the cotangent of gelu's input."""
    return blockwise(_tanh_slope if approximate == "tanh" else _exact_slope, grad, input)


@gelu_backward.vjp("grad")
def _(g: Tensor, input: Tensor, approximate: str) -> Tensor:
    return gelu_backward(g, input, approximate=approximate)


@gelu_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor, approximate: str) -> Tensor:
    square = input * input
    if approximate == "none":
        return g * grad * (square * -0.5).exp() * _DENSITY * (2 - square)
    area = (input * _ROOT_TWO_OVER_PI * (square * _CUBIC + 1) * 2).sigmoid()
    first = (square * (3 * _CUBIC) + 1) * (2 * _ROOT_TWO_OVER_PI)
    second = input * (12 * _CUBIC * _ROOT_TWO_OVER_PI)
    slope = area * (1 - area)
    return g * grad * slope * (first * 2 + input * (second + first * first * (1 - area * 2)))
