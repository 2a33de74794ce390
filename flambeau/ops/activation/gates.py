"""Activations with weights, gates or randomness: prelu, glu, rrelu."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import BOOL, INTEGER
from ...tensor.random.generator import Generator
from ...tensor.tensor import Tensor, wrap
from ..core import dtype_refusals
from ..core.autocast import Policy
from ..core.cache_blocking import choose
from ..core.inplace import overwrite
from ..core.operator import Array, Number, publish
from ..core.registry import composite, pointwise
from ..core.sample_inputs import pairs_nonzero
from .negative_slopes import refuse_backward
from .rectifiers import leaky_relu
from .sigmoids import logistic, sigmoid_backward


@pointwise(name="_prelu_kernel", node="PreluKernelBackward0", expose=(), inplace=False,
           ref=lambda x, w: np.maximum(x, 0) + w * np.minimum(x, 0), samples=pairs_nonzero,
           refuse=dtype_refusals.integers)
def leaky_by(input: Array, weight: Array) -> Array:
    """Return input where it is positive, else weight * input."""
    return choose(input > 0, input, weight * input)


@leaky_by.vjp("input")
def _(g: Tensor, input: Tensor, weight: Tensor) -> Tensor:
    return _select_by_sign(input, g, g * weight)


@leaky_by.vjp("weight")
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * input * (input <= 0)


def _select_by_sign(input: Tensor, positive: Tensor, other: Tensor) -> Tensor:
    from ..pointwise.selection import select

    return select(input > 0, positive, other)


@composite(autocast=Policy.LOWER, expose=("torch", "Tensor", "nn.functional"))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Apply the parametric ReLU: input where it is positive, else weight * input.

    `weight` holds a single value or one per channel.

    >>> torch.nn.functional.prelu(torch.tensor([-1., 2.]), torch.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    if input.dtype is not weight.dtype:
        raise RuntimeError("prelu: Type promoting not supported. Got "
                           f"{input.dtype} and {weight.dtype}")
    if weight.ndim > 1:
        raise RuntimeError("prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
                           f"{weight.ndim}")
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if input.ndim < 2:
        weight = weight.reshape((1,) * input.ndim)
    else:
        weight = weight.reshape((1, weight.numel()) + (1,) * (input.ndim - 2))  # (1, c, 1, ...)
    return leaky_by(input, weight)


_glu_floats = dtype_refusals.Refusal(BOOL, INTEGER, error=dtype_refusals.as_kernel("glu_cpu"))


@pointwise(name="_glu", node="GluBackward0", expose=(), inplace=False, samples=pairs_nonzero,
           ref=lambda x, gate: x / (1 + np.exp(-gate)), refuse=_glu_floats)
def gated(input: Array, gate: Array) -> Array:
    """Return input * sigmoid(gate)."""
    return input * logistic(gate)


@gated.vjp("input")
def _(g: Tensor, gate: Tensor) -> Tensor:
    return g * gate.sigmoid()


@gated.vjp("gate")
def _(g: Tensor, input: Tensor, gate: Tensor) -> Tensor:
    return sigmoid_backward(g * input, gate.sigmoid())


@composite(expose=("nn.functional",), explains=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Apply a gated linear unit: the first half along `dim` times the sigmoid of the second.

    >>> torch.nn.functional.glu(torch.tensor([1., 2., 0., 0.]))
    tensor([0.5000, 1.0000])
    """
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    length = input.shape[dim] if -input.ndim <= dim < input.ndim else input.size(dim)
    if length % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.ndim} is size {length}"
        )
    half = length // 2
    return gated(input.narrow(dim, 0, half), input.narrow(dim, half, half))


def _draw_slopes(input: Tensor, lower: float, upper: float, generator: Generator | None) -> Tensor:
    """Draw slopes for the elements that are not positive, in order; 1 for the others."""
    from ...tensor.dtypes import float64
    from ..creation.creation import empty

    array = input._array
    below = array <= 0
    drawn = empty(int(below.sum()), dtype=float64).uniform_(lower, upper, generator=generator)
    slopes = np.ones(array.shape, array.dtype)
    slopes[below] = drawn._array
    return wrap(slopes)


def _rrelu(
    input: Tensor, lower: Any, upper: Any, training: bool, generator: Generator | None = None
) -> Tensor:
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    input = input.contiguous()  # PyTorch's result is row-major
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    return input * _draw_slopes(input, lower, upper, generator)


@composite(expose=("nn.functional",))
def rrelu(
    input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
    inplace: bool = False
) -> Tensor:
    """Apply a leaky ReLU with a random negative slope.

    In training, each slope is drawn from [lower, upper]; otherwise it is their mean.

    >>> torch.nn.functional.rrelu(torch.tensor([-1., 2.]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    if inplace:
        return rrelu_(input, lower, upper, training)
    return _rrelu(input, lower, upper, training)


@composite(expose=("nn.functional", "torch"), explains=True)
def rrelu_(
    input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
    generator: Generator | None = None
) -> Tensor:
    """`rrelu` in place."""
    y = overwrite(input, "rrelu_", _rrelu, lower, upper, training, generator)
    return y if training else refuse_backward(y, (lower + upper) / 2, "leaky_relu")


@composite(name="torch.rrelu", expose=())
def _rrelu_of_torch(
    input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
    generator: Generator | None = None
) -> Tensor:
    """Apply a leaky ReLU with a random negative slope.

    In training, each slope is drawn from [lower, upper]; otherwise it is their mean.

    >>> torch.rrelu(torch.tensor([-1., 1.]), 0.1, 0.3)
    tensor([-0.2000,  1.0000])
    """
    return _rrelu(input, lower, upper, training, generator)


publish(_rrelu_of_torch, ("rrelu",), ("torch",))
