"""The logistic function and the activations made with it."""

from __future__ import annotations

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise
from ..core.operator import Array, Promotion
from ..core.registry import composite, pointwise
from ..core.sample_inputs import pairs_nonzero, real_line
from ..core.scalar_conversion import ONE


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)) of an array, allocating one temporary."""
    y = np.negative(x)
    if y.__class__ is not np.ndarray or not y.ndim:
        return 1 / (1 + np.exp(y))
    np.exp(y, y)
    np.add(y, ONE, y)
    return np.reciprocal(y, y)


@pointwise(ref=lambda x: 0.5 * (np.tanh(0.5 * x) + 1), samples=real_line,
           promotion=Promotion.FLOATING,
           aliases=("special.expit", "nn.functional.sigmoid"))
def sigmoid(input: Array) -> Array:
    """Apply the logistic function, 1 / (1 + exp(-input)).

    >>> torch.sigmoid(torch.tensor([0., 2.]))
    tensor([0.5000, 0.8808])
    """
    return blockwise(logistic, input)


@sigmoid.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return sigmoid_backward(g, y)


def _logistic_slope(grad: np.ndarray, output: np.ndarray) -> np.ndarray:
    slope = np.subtract(1, output)
    slope = np.multiply(slope, output, out=slope if slope.ndim else None)
    return np.multiply(slope, grad)


@pointwise(ref=lambda g, y: g * y * (1 - y), samples=pairs_nonzero, expose=("aten",), inplace=False)
def sigmoid_backward(grad: Array, output: Array) -> Array:
    """Return the cotangent of sigmoid's input from its output, grad * output * (1 - output)."""
    return blockwise(_logistic_slope, grad, output)


@sigmoid_backward.vjp("grad")
def _(g: Tensor, output: Tensor) -> Tensor:
    return sigmoid_backward(g, output)


@sigmoid_backward.vjp("output")
def _(g: Tensor, grad: Tensor, output: Tensor) -> Tensor:
    return g * grad * (1 - output * 2)


# ------------------------------------------------------------------------------- silu, mish


def _silu(x: np.ndarray) -> np.ndarray:
    y = np.negative(x)
    if y.__class__ is not np.ndarray or not y.ndim:
        return x / (np.exp(y) + 1)
    np.exp(y, y)
    np.add(y, ONE, y)
    return np.divide(x, y, y)


@pointwise(name="_silu", node="SiluBackward0", expose=(), samples=real_line,
           ref=lambda x: x * (np.tanh(x / 2) + 1) / 2, refuse=dtype_refusals.integers)
def _silu_operator(input: Array) -> Array:
    """input * sigmoid(input)."""
    return blockwise(_silu, input)


@_silu_operator.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return silu_backward(g, input)


def _silu_slope(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    s = logistic(x)
    return grad * (s * (1 + x * (1 - s)))


@pointwise(ref=lambda g, x: g * (np.exp(-x) * (1 + x) + 1) / (1 + np.exp(-x)) ** 2,
           expose=("aten",), samples=pairs_nonzero, inplace=False)
def silu_backward(grad: Array, input: Array) -> Array:
    """Return the cotangent of silu's input."""
    return blockwise(_silu_slope, grad, input)


@silu_backward.vjp("grad")
def _(g: Tensor, input: Tensor) -> Tensor:
    return silu_backward(g, input)


@silu_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor) -> Tensor:
    s = sigmoid(input)
    return g * grad * s * (1 - s) * (2 + input * (1 - s * 2))


@composite(expose=("nn.functional",))
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply the sigmoid-weighted linear unit (SiLU, swish), input * sigmoid(input).

    >>> torch.nn.functional.silu(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7311])
    """
    return _silu_operator.operator.twin(input) if inplace else _silu_operator(input)


def _tanh_of_softplus(x: np.ndarray) -> np.ndarray:
    # With w = exp(x), tanh(log(1 + w)) is a ratio without cancellation. Above 40 it is 1, and w * w
    # would overflow in float32.
    w = np.exp(np.minimum(x, 40))
    p = w * (w + 2)
    return p / (p + 2)


def _mish(x: np.ndarray) -> np.ndarray:
    return x * _tanh_of_softplus(x)


@pointwise(name="_mish", node="MishBackward0", expose=(), samples=real_line,
           ref=lambda x: x * np.tanh(np.log1p(np.exp(x))), refuse=dtype_refusals.integers)
def _mish_operator(input: Array) -> Array:
    """input * tanh(softplus(input))."""
    return blockwise(_mish, input)


@_mish_operator.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return mish_backward(g, input)


def _mish_slope(grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    t = _tanh_of_softplus(x)
    return grad * (t + x * logistic(x) * (1 - t * t))


def _mish_slope_ref(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    t = np.tanh(np.log1p(np.exp(x)))
    return g * (t + x * (1 - t**2) / (1 + np.exp(-x)))


@pointwise(ref=_mish_slope_ref, expose=("aten",), samples=pairs_nonzero, inplace=False)
def mish_backward(grad: Array, input: Array) -> Array:
    """Return the cotangent of mish's input."""
    return blockwise(_mish_slope, grad, input)


@mish_backward.vjp("grad")
def _(g: Tensor, input: Tensor) -> Tensor:
    return mish_backward(g, input)


@mish_backward.vjp("input")
def _(g: Tensor, grad: Tensor, input: Tensor) -> Tensor:
    from .softplus import softplus

    t, s = softplus(input).tanh(), sigmoid(input)
    return g * grad * (1 - t * t) * s * (2 + input * (1 - s - t * s * 2))


@composite(expose=("nn.functional",))
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply Mish, input * tanh(softplus(input)) (Misra 2019).

    >>> torch.nn.functional.mish(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8651])
    """
    return _mish_operator.operator.twin(input) if inplace else _mish_operator(input)
