"""Combinations of two or three tensors: fused products, interpolation, distances, divisors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.dtypes import BOOL, INTEGER
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.operator import Array, Number
from ..core.registry import composite, pointwise
from ..core.sample_inputs import Rng, Sample, pairs_nonzero


def _triples(rng: Rng) -> Iterator[Sample]:
    for (x, y), _ in pairs_nonzero(rng):
        yield (rng.normal(size=np.shape(x)), x, y), {}
        yield (rng.normal(size=np.shape(y)), x, y), {"value": 1.5}


def _convert_value(value: Any, dtype: np.dtype) -> Any:
    return value if dtype.kind in "fc" else dtype.type(value)


def _is_one(value: Any) -> bool:
    """Whether a factor is the number 1; one that a program computes may become any number."""
    return value.__class__ in (int, float) and value == 1


@pointwise(ref=lambda x, a, b, value=1: x + value * a * b, samples=_triples,
           takes_computed_numbers=True,
           refuse=dtype_refusals.Refusal(BOOL, error=dtype_refusals.as_kernel("addcmul_cpu_out")))
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Array:
    """Compute input + value * tensor1 * tensor2.

    >>> torch.addcmul(torch.tensor([1., 2.]), torch.tensor([3., 4.]), torch.tensor([5., 6.]))
    tensor([16., 26.])
    """
    y = np.multiply(tensor1, tensor2)
    if not _is_one(value):
        y = np.multiply(y, _convert_value(value, y.dtype), out=y if y.ndim else None)
    return np.add(input, y)


@addcmul.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@addcmul.vjp("tensor1")
def _(g: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    return g * (tensor2 if value == 1 else tensor2 * value)


@addcmul.vjp("tensor2")
def _(g: Tensor, tensor1: Tensor, value: Number) -> Tensor:
    return g * (tensor1 if value == 1 else tensor1 * value)


def _refuse_integers(operator: Any, operands: tuple, common: Any) -> None:
    if all(x.dtype.category in (BOOL, INTEGER) for x in operands[1:] if isinstance(x, Tensor)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for the historic result, or convert "
            "the tensors to floating point for a true division."
        )


@pointwise(ref=lambda x, a, b, value=1: x + value * a / b, samples=_triples,
           refuse=_refuse_integers, takes_computed_numbers=True)
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Array:
    """Compute input + value * tensor1 / tensor2; RuntimeError if both are integers.

    >>> torch.addcdiv(torch.tensor([1., 2.]), torch.tensor([3., 4.]), torch.tensor([6., 8.]))
    tensor([1.5000, 2.5000])
    """
    y = np.divide(tensor1 if _is_one(value) else tensor1 * value, tensor2)
    return np.add(input, y)


@addcdiv.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@addcdiv.vjp("tensor1")
def _(g: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    return g * value / tensor2


@addcdiv.vjp("tensor2")
def _(g: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number) -> Tensor:
    return -g * (value * tensor1 / (tensor2 * tensor2))


# ------------------------------------------------------------------------------- interpolation


def _ends(rng: Rng) -> Iterator[Sample]:
    for (x, y), _ in pairs_nonzero(rng):
        yield (x, y, 0.3), {}
        yield (x, y, rng.uniform(0, 1, np.shape(y))), {}


def _refuse_lerp(operator: Any, operands: tuple, common: Any) -> None:
    input, end, weight = operands
    for name, x in (("end", end), ("weight", weight)):
        # A weight of no axes may be of another dtype, as a number would.
        if isinstance(x, Tensor) and x.dtype is not input.dtype and (name == "end" or x.ndim):
            raise RuntimeError(
                f"expected dtype {input.dtype} for `{name}` but got dtype {x.dtype}"
            )
    if input.dtype.category in (BOOL, INTEGER):
        raise dtype_refusals.build_dtype_error(operator, input.dtype)


@pointwise(ref=lambda x, y, w: (1 - w) * x + w * y, samples=_ends, refuse=_refuse_lerp,
           node=("LerpBackward0", "LerpBackward1"), takes_computed_numbers=True,
           overload=lambda input, end, weight: isinstance(weight, Tensor))
def lerp(input: Array, end: Array, weight: Array | Number) -> Array:
    """Interpolate linearly from input to end, input + weight * (end - input).

    Args:
        input: The first end, of any shape.

    >>> torch.lerp(torch.tensor([1., 2.]), torch.tensor([3., 6.]), 0.25)
    tensor([1.5000, 3.0000])
    """
    gap = np.subtract(end, input)
    near_end: Any = np.abs(weight) >= 0.5
    if near_end.__class__ in (bool, np.bool_):  # from the nearer end: 0 and 1 give ends exactly
        return end - gap * (1 - weight) if near_end else input + gap * weight
    return np.where(near_end, end - gap * (1 - weight), input + gap * weight)


@lerp.vjp("input")
def _(g: Tensor, weight: Tensor | Number) -> Tensor:
    return g * (1 - weight)


@lerp.vjp("end")
def _(g: Tensor, weight: Tensor | Number) -> Tensor:
    return g * weight


@lerp.vjp("weight")
def _(g: Tensor, input: Tensor, end: Tensor) -> Tensor:
    return g * (end - input)


# ------------------------------------------------------------------------------- distances


def _refuse_hypot(operator: Any, operands: tuple, common: Any) -> None:
    if common.is_complex or not common.is_floating_point:
        raise dtype_refusals.build_dtype_error(operator, common)


@pointwise(ref=lambda x, y: np.sqrt(x * x + y * y), samples=pairs_nonzero, refuse=_refuse_hypot,
           ufunc=np.hypot)
def hypot(input: Array, other: Array) -> Array:
    """Length of the hypotenuse, sqrt(input**2 + other**2), without overflow.

    >>> torch.hypot(torch.tensor([3.]), torch.tensor([4.]))
    tensor([5.])
    """
    return np.hypot(input, other)


@hypot.vjp("input")
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    return g * (input / y)


@hypot.vjp("other")
def _(g: Tensor, other: Tensor, y: Tensor) -> Tensor:
    return g * (other / y)


@composite(explains=True, node="DistBackward0")
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """Return the p-norm of input - other.

    >>> torch.dist(torch.tensor([1., 2.]), torch.tensor([4., 6.]))
    tensor(5.)
    """
    power: Any = p
    return (input - other).norm(power)


# ------------------------------------------------------------------------------- divisors


def _integers(rng: Rng) -> Iterator[Sample]:
    for left, right in (((5,), (5,)), ((3, 4), (4,)), ((), (3,))):
        yield (rng.integers(-30, 30, left), rng.integers(-30, 30, right)), {}


@pointwise(
    ref=np.gcd, samples=_integers, differentiable=False, refuse=dtype_refusals.all_but_integers
)
def gcd(input: Array, other: Array) -> Array:
    """Greatest common divisor of two integers, never negative.

    >>> torch.gcd(torch.tensor([12, -8]), torch.tensor([18, 6]))
    tensor([6, 2])
    """
    return np.gcd(input, other)


@pointwise(
    ref=np.lcm, samples=_integers, differentiable=False, refuse=dtype_refusals.all_but_integers
)
def lcm(input: Array, other: Array) -> Array:
    """Least common multiple of two integers, never negative.

    >>> torch.lcm(torch.tensor([4, -6]), torch.tensor([6, 4]))
    tensor([12, 12])
    """
    return np.lcm(input, other)
