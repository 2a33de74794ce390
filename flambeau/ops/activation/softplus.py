"""Softplus and the logarithm of the logistic function."""

from __future__ import annotations

from typing import Any
from collections.abc import Iterator

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise, choose
from ..core.operator import Array, Number
from ..core.output_layout import Layout
from ..core.registry import composite, pointwise
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line


def _log1p_exp(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _parameters(rng: Rng) -> Iterator[Sample]:
    for (x,), _ in real_line(rng):
        yield (x,), {}
        yield (x,), {"beta": 0.7, "threshold": 1.5}


def _softplus_ref(x: np.ndarray, beta: float = 1, threshold: float = 20) -> np.ndarray:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(beta * x)) / beta)


def _softplus(x: np.ndarray, beta: Any, threshold: float) -> np.ndarray:
    scaled = x if beta == 1 else x * beta
    y = _log1p_exp(scaled)
    if beta != 1:
        y = y / beta
    # Past 20 float32 cannot tell the formula from its input, float64 past 37.
    if threshold == 20 and x.dtype.itemsize <= 4:
        return y
    return choose(scaled > threshold, x, y)


@pointwise(ref=_softplus_ref, samples=_parameters, expose=("nn.functional",), inplace=False,
           refuse=dtype_refusals.integers)
def softplus(input: Array, beta: Number | Tensor = 1, threshold: float = 20) -> Array:
    """Compute log(1 + exp(beta * input)) / beta, a smooth approximation of ReLU.

    Returns the input itself where beta * input > threshold.

    >>> torch.nn.functional.softplus(torch.tensor([0., 30.]))
    tensor([ 0.6931, 30.0000])
    """
    return blockwise(lambda x: _softplus(x, beta, threshold), input)


@softplus.vjp
def _(g: Tensor, input: Tensor, beta: Number | Tensor, threshold: float) -> Tensor:
    return softplus_backward(g, input, beta, threshold)


def _softplus_slope_ref(g: np.ndarray, x: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    return np.where(x * beta > threshold, g, g / (1 + np.exp(-beta * x)))


def _softplus_slope(
    grad: np.ndarray, x: np.ndarray, beta: Any, threshold: float
) -> np.ndarray:
    scaled = x if beta == 1 else x * beta
    return choose(scaled > threshold, grad, grad / (1 + np.exp(-scaled)))


def _slope_samples(rng: Rng) -> Iterator[Sample]:
    for args, _ in pairs_nonzero(rng):
        yield args, {"beta": 0.7, "threshold": 0.5}


@pointwise(ref=_softplus_slope_ref, samples=_slope_samples, expose=(), inplace=False)
def softplus_backward(grad: Array, input: Array, beta: Number | Tensor, threshold: float) -> Array:
    """Return the cotangent of softplus's input."""
    return blockwise(lambda g, x: _softplus_slope(g, x, beta, threshold), grad, input)


@softplus_backward.vjp("grad")
def _(g: Tensor, input: Tensor, beta: Number | Tensor, threshold: float) -> Tensor:
    return softplus_backward(g, input, beta, threshold)


@softplus_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor, beta: Number | Tensor, threshold: float) -> Tensor:
    s = (input * beta).sigmoid()
    return g * grad * beta * s * (1 - s) * (input * beta <= threshold)


def _log_logistic(x: np.ndarray) -> np.ndarray:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@pointwise(layout=Layout.CONTIGUOUS, node="LogSigmoidBackward0", samples=real_line,
           inplace=False,
           ref=lambda x: np.log(1 / (1 + np.exp(-x))), expose=("nn.functional",),
           refuse=dtype_refusals.integers)
def logsigmoid(input: Array) -> Array:
    """Compute log(sigmoid(input)) without overflow.

    >>> torch.nn.functional.logsigmoid(torch.tensor([0., -100.]))
    tensor([  -0.6931, -100.0000])
    """
    return blockwise(_log_logistic, input)


@logsigmoid.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (-input).sigmoid()


@composite(expose=("nn.functional",), explains=True)
def softsign(input: Tensor) -> Tensor:
    """Compute input / (1 + |input|).

    >>> torch.nn.functional.softsign(torch.tensor([1., -3.]))
    tensor([ 0.5000, -0.7500])
    """
    return input / (input.abs() + 1)


@composite(expose=("nn.functional",), explains=True)
def tanhshrink(input: Tensor) -> Tensor:
    """Compute input - tanh(input).

    >>> torch.nn.functional.tanhshrink(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2384])
    """
    return input - input.tanh()
