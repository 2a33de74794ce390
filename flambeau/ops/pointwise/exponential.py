"""Exponentials and logarithms."""

from __future__ import annotations

import math

import numpy as np

from ...tensor.dtypes import BOOL, COMPLEX, INTEGER
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.operator import Array, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import positive, positive_pairs, real_line

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)


@pointwise(ref=lambda x: np.e**x, samples=real_line, promotion=Promotion.FLOATING, ufunc=np.exp)
def exp(input: Array) -> Array:
    """Exponential, e**input.

    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])
    """
    return np.exp(input)


@exp.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * y


@pointwise(ref=lambda x: 2.0**x, samples=real_line, promotion=Promotion.FLOATING,
           aliases=("special.exp2",))
def exp2(input: Array) -> Array:
    """Base-2 exponential, 2**input.

    >>> torch.exp2(torch.tensor([0., 3.]))
    tensor([1., 8.])
    """
    if input.dtype.kind != "c":
        return np.exp2(input)
    scaled = np.empty_like(input)
    scaled.real, scaled.imag = input.real * _LN2, input.imag * _LN2
    return np.exp(scaled)


@exp2.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * y * _LN2


@pointwise(ref=lambda x: np.exp(x) - 1, samples=real_line, promotion=Promotion.FLOATING,
           ufunc=np.expm1, aliases=("special.expm1",))
def expm1(input: Array) -> Array:
    """e**input - 1, accurate near 0.

    >>> torch.expm1(torch.tensor([0., 1.]))
    tensor([0.0000, 1.7183])
    """
    return np.expm1(input)


@expm1.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * (y + 1)


@pointwise(ref=lambda x: np.log2(x) / np.log2(np.e), samples=positive,
           promotion=Promotion.FLOATING, ufunc=np.log)
def log(input: Array) -> Array:
    """Natural logarithm; -inf at 0, NaN for negative input.

    >>> torch.log(torch.tensor([1., 10.]))
    tensor([0.0000, 2.3026])
    """
    return np.log(input)


@log.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / input


@pointwise(ref=lambda x: np.log(x) / np.log(2), samples=positive, promotion=Promotion.FLOATING,
           ufunc=np.log2)
def log2(input: Array) -> Array:
    """Base-2 logarithm.

    >>> torch.log2(torch.tensor([1., 8.]))
    tensor([0., 3.])
    """
    return np.log2(input)


@log2.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / (input * _LN2)


@pointwise(ref=lambda x: np.log(x) / np.log(10), samples=positive, promotion=Promotion.FLOATING)
def log10(input: Array) -> Array:
    """Base-10 logarithm.

    >>> torch.log10(torch.tensor([1., 1000.]))
    tensor([0., 3.])
    """
    if input.__class__ is np.ndarray and input.dtype == np.float32:  # its loop misses 3 for 1000
        return np.log10(input.astype(np.float64)).astype(np.float32)
    return np.log10(input)


@log10.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / (input * _LN10)


def log1p_of_complex(z: Array) -> Array:
    """log(1 + z) of complex numbers, accurate near 0."""
    x, y = z.real, z.imag
    small = x * (2 + x) + y * y
    with np.errstate(all="ignore"):  # overflow in the branch that is not taken
        logarithm = np.where(np.abs(z) < 0.5, np.where(small == 0, x, 0.5 * np.log1p(small)),
                             np.log(np.hypot(x + 1, y)))
    result = np.empty_like(z)
    result.real, result.imag = logarithm, np.arctan2(y, x + 1)
    return result


@pointwise(ref=lambda x: np.log(1 + x), samples=positive, promotion=Promotion.FLOATING,
           aliases=("special.log1p",))
def log1p(input: Array) -> Array:
    """log(1 + input), accurate near 0.

    >>> torch.log1p(torch.tensor([0., 1.]))
    tensor([0.0000, 0.6931])
    """
    return np.log1p(input) if input.dtype.kind != "c" else log1p_of_complex(input)


@log1p.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / (input + 1)


# ------------------------------------------------------------------------------- of two operands


def _log_sum(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    """log(e**a + e**b) = max + log1p(exp(-|a - b|)); infinities of one sign meet as themselves."""
    larger, gap = np.maximum(input, other), np.subtract(input, other)
    gap = np.exp(np.negative(np.abs(gap)))
    y = larger + np.log1p(gap)
    return np.where(input == other, larger + input.dtype.type(_LN2), y)


def _complex_log_sum(input: np.ndarray, other: np.ndarray) -> np.ndarray:
    swap = input.real < other.real
    larger, smaller = np.where(swap, other, input), np.where(swap, input, other)
    return np.where(larger == -np.inf, larger, larger + np.log1p(np.exp(smaller - larger)))


_all_but_floats = dtype_refusals.Refusal(BOOL, INTEGER, COMPLEX)


@pointwise(ref=lambda x, y: np.log(np.exp(x) + np.exp(y)), samples=positive_pairs, inplace=False,
           refuse=dtype_refusals.integers)
def logaddexp(input: Array, other: Array) -> Array:
    """log(e**input + e**other), without overflow.

    >>> torch.logaddexp(torch.tensor([100.]), torch.tensor([100.]))
    tensor([100.6931])
    """
    return _complex_log_sum(input, other) if input.dtype.kind == "c" else _log_sum(input, other)


@logaddexp.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g / (1 + exp(other - input))


@logaddexp.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g / (1 + exp(input - other))


@pointwise(ref=lambda x, y: np.log2(2**x + 2**y), samples=positive_pairs, inplace=False,
           refuse=_all_but_floats)
def logaddexp2(input: Array, other: Array) -> Array:
    """log2(2**input + 2**other), without overflow.

    >>> torch.logaddexp2(torch.tensor([100.]), torch.tensor([100.]))
    tensor([101.])
    """
    if input.__class__ is np.ndarray:
        return np.logaddexp2(input, other)
    larger, gap = np.maximum(input, other), abs(np.subtract(input, other))
    y = larger + np.log1p(np.exp2(-gap)) * (1 / _LN2)  # one element of a formula
    return np.where(input == other, larger + 1, y)


@logaddexp2.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g / (1 + exp2(other - input))


@logaddexp2.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g / (1 + exp2(input - other))
