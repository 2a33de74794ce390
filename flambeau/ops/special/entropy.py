"""Products with logarithms that are 0 at 0, and log odds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.operator import Array, Number, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample, positive, positive_pairs
from ..pointwise.selection import select


def _find_number(input: Any, other: Any) -> int:
    """Return 1 if the first operand is a number, 2 if the second one is, 0 for two tensors."""
    return 1 if not isinstance(input, Tensor) else 2 if not isinstance(other, Tensor) else 0


@pointwise(ref=lambda x, y: x * np.log(y), samples=positive_pairs, promotion=Promotion.FLOATING,
           aliases=("special.xlogy",), refuse=dtype_refusals.complex_numbers,
           node=("XlogyBackward0", "XlogyBackward1", "XlogyBackward2"), overload=_find_number)
def xlogy(input: Array | Number, other: Array | Number) -> Array:
    """Return input * log(other); 0 where input is 0, unless other is NaN.

    >>> torch.xlogy(torch.tensor([0., 2.]), torch.tensor([0., 1.]))
    tensor([0., 0.])
    """
    y = np.multiply(input, np.log(other))
    return np.where(np.equal(input, 0) & ~np.isnan(other), y.dtype.type(0), y)


@xlogy.vjp("input")
def _(g: Tensor, input: Any, other: Any) -> Tensor:
    return select((input == 0) & (other <= 0), 0, xlogy(g, other))


@xlogy.vjp("other")
def _(g: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    return g * input / other


@pointwise(ref=lambda x, y: x * np.log(1 + y), samples=positive_pairs, expose=("special",),
           promotion=Promotion.FLOATING, inplace=False, refuse=dtype_refusals.complex_numbers,
           node=("SpecialXlog1PyBackward0", "SpecialXlog1PyBackward1", "SpecialXlog1PyBackward2"),
           overload=_find_number)
def xlog1py(input: Array | Number, other: Array | Number) -> Array:
    """Return input * log1p(other); 0 where input is 0, unless other is NaN.

    >>> torch.special.xlog1py(torch.tensor([0., 2.]), torch.tensor([-1., 0.]))
    tensor([0., 0.])
    """
    y = np.multiply(input, np.log1p(other))
    return np.where(np.equal(input, 0) & ~np.isnan(other), y.dtype.type(0), y)


@xlog1py.vjp("input")
def _(g: Tensor, input: Any, other: Any) -> Tensor:
    return select((input == 0) & (other <= -1), 0, xlog1py(g, other))


@xlog1py.vjp("other")
def _(g: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    return g * input / (other + 1)


@pointwise(ref=lambda x: -x * np.log(x), samples=positive, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialEntrBackward0")
def entr(input: Array) -> Array:
    """Entropy term, -input * log(input); 0 at 0, -inf for negative input.

    >>> torch.special.entr(torch.tensor([0., 0.5, -1.]))
    tensor([0.0000, 0.3466,   -inf])
    """
    kind = input.dtype.type
    with np.errstate(all="ignore"):
        y = np.negative(input) * np.log(input)
    return np.where(np.equal(input, 0), kind(0), np.where(np.less(input, 0), kind(-np.inf), y))


@entr.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (-input.log() - 1)


def _odds(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (3, 4)):
        yield (rng.uniform(0.1, 0.9, shape),), {}
        yield (rng.uniform(0.1, 0.9, shape),), {"eps": 0.2}


def _logit_ref(p: np.ndarray, eps: float | None = None) -> np.ndarray:
    p = p if eps is None else np.clip(p, eps, 1 - eps)
    return 2 * np.arctanh(2 * p - 1)


@pointwise(ref=_logit_ref, samples=_odds, promotion=Promotion.FLOATING, aliases=("special.logit",),
           refuse=dtype_refusals.complex_numbers)
def logit(input: Array, eps: float | None = None) -> Array:
    """Log-odds, log(input / (1 - input)); `eps` clips input to [eps, 1 - eps] first.

    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """
    if eps is not None:
        # In the input's own precision, where 1 - eps is rounded.
        low = input.dtype.type(eps)
        input = np.minimum(np.maximum(input, low), 1 - low)
    return np.log(input / (1 - input))


@logit.vjp
def _(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    slope = g / (input * (1 - input)).abs()  # of -0.0, too, it is +inf
    if eps is None:
        return select((input < 0) | (input > 1), math.nan, slope)
    return select((input < eps) | (input > 1 - eps), 0, slope)
