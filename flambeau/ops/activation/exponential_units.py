"""Activations that are straight above zero and exponential below: elu, selu, celu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise, choose
from ..core.operator import Array, Number, publish
from ..core.registry import composite, pointwise, writes_by_operators
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line
from .negative_slopes import refuse_backward

# Klambauer et al. 2017: the constants that keep activations at mean 0 and variance 1.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _parameters(rng: Rng) -> Iterator[Sample]:
    for (x,), _ in real_line(rng):
        yield (x,), {}
        yield (x,), {"alpha": 1.5, "scale": 2.0, "input_scale": 0.7}


def _elu_ref(
    x: np.ndarray, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> np.ndarray:
    return scale * np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0) * input_scale) - 1))


def _elu(x: np.ndarray, below_scale: Any, scale: float, rate: float) -> np.ndarray:
    below = np.minimum(0, x)
    below = np.expm1(below if rate == 1 else below * rate)
    if below_scale != 1:
        below = below * below_scale
    above = np.maximum(0, x)
    return above + below if scale == 1 else above * scale + below


@pointwise(name="_elu", node="EluBackward0", ref=_elu_ref, samples=_parameters, expose=(),
           refuse=dtype_refusals.integers)
def elu_of(
    input: Array, alpha: Number | Tensor = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Array:
    """Return scale * input above 0, scale * alpha * (exp(input_scale * input) - 1) below."""
    return blockwise(lambda x: _elu(x, alpha * scale, scale, input_scale), input)


@elu_of.vjp
def _(g: Tensor, input: Tensor, alpha: Number | Tensor, scale: float, input_scale: float) -> Tensor:
    return elu_backward(g, input, scale * alpha * input_scale, scale, input_scale)


def _slope_ref(g: np.ndarray, x: np.ndarray, below: float, above: float, rate: float) -> np.ndarray:
    return g * np.where(x <= 0, below * np.exp(np.minimum(x, 0) * rate), above)


def _elu_slope(
    grad: np.ndarray, x: np.ndarray, below: float, above: float, rate: float
) -> np.ndarray:
    slope = np.exp(np.minimum(x, 0) if rate == 1 else np.minimum(x, 0) * rate)
    scaled = slope if below == 1 else slope * below
    return grad * choose(x <= 0, scaled, np.asarray(above, x.dtype))


@pointwise(ref=_slope_ref, expose=(), inplace=False, samples=lambda rng: (
    (a, {"below": 1.5, "above": 2.0, "rate": 0.7}) for a, _ in pairs_nonzero(rng)))
def elu_backward(grad: Array, input: Array, below: Any, above: Any, rate: Any) -> Array:
    """Return grad * below * exp(rate * input) where input <= 0, else (NaN, too) grad * above."""
    return blockwise(lambda g, x: _elu_slope(g, x, below, above, rate), grad, input)


@elu_backward.vjp("grad")
def _(g: Tensor, input: Tensor, below: Any, above: Any, rate: Any) -> Tensor:
    return elu_backward(g, input, below, above, rate)


@elu_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor, below: Any, rate: Any) -> Tensor:
    return elu_backward(g * grad, input, below * rate, 0.0, rate)


def _apply(input: Tensor, inplace: bool, *parameters: Any) -> Tensor:
    if inplace:
        return refuse_backward(elu_of.operator.twin(input, *parameters), parameters[0], "elu")
    return elu_of(input, *parameters)


@composite(expose=("nn.functional",))
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Apply the exponential linear unit: input above 0, alpha * (exp(input) - 1) below.

    Clevert et al., 2016.

    >>> torch.nn.functional.elu(torch.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return _apply(input, inplace, alpha)


@writes_by_operators
@composite(expose=("nn.functional",))
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return _apply(input, True, alpha)


@composite(expose=("nn.functional",))
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the self-normalizing ELU, whose constants preserve mean 0 and variance 1.

    >>> torch.nn.functional.selu(torch.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])
    """
    return _apply(input, inplace, _SELU_ALPHA, _SELU_SCALE)


@writes_by_operators
@composite(expose=("torch", "nn.functional"))
def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return _apply(input, True, _SELU_ALPHA, _SELU_SCALE)


@composite(expose=("nn.functional",), node="CeluBackward0")
def celu(input: Tensor, alpha: Number = 1.0, inplace: bool = False) -> Tensor:
    """Apply the continuously differentiable ELU, alpha * (exp(input / alpha) - 1) below 0.

    Positive inputs are unchanged. alpha must not be 0. Barron, 2017.

    >>> torch.nn.functional.celu(torch.tensor([-1., 2.]), 2.)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _apply(input, inplace, alpha, 1.0, 1 / alpha)


@writes_by_operators
@composite(expose=("torch", "nn.functional"))
def celu_(input: Tensor, alpha: Number = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, True)


publish(selu, ("selu",), ("torch",))
publish(celu, ("celu",), ("torch",))
