"""Logic on truth values: an element is true when it is not zero."""

from __future__ import annotations

import numpy as np

from ..core.operator import Array, Promotion
from ..core.registry import pointwise
from .compare import ties, unusual


@pointwise(ref=lambda x: x == 0, samples=unusual, promotion=Promotion.PREDICATE,
           differentiable=False, ufunc=np.logical_not)
def logical_not(input: Array) -> Array:
    """Logical NOT; True for elements equal to zero.

    >>> torch.logical_not(torch.tensor([0., 2.]))
    tensor([ True, False])
    """
    return np.logical_not(input)


@pointwise(ref=lambda x, y: (x != 0) & (y != 0), samples=ties, promotion=Promotion.PREDICATE,
           differentiable=False)
def logical_and(input: Array, other: Array) -> Array:
    """Logical AND; nonzero elements count as true.

    >>> torch.logical_and(torch.tensor([1, 0]), torch.tensor([2, 2]))
    tensor([ True, False])
    """
    return np.logical_and(input, other)


@pointwise(ref=lambda x, y: (x != 0) | (y != 0), samples=ties, promotion=Promotion.PREDICATE,
           differentiable=False)
def logical_or(input: Array, other: Array) -> Array:
    """Logical OR; nonzero elements count as true.

    >>> torch.logical_or(torch.tensor([1, 0]), torch.tensor([0, 0]))
    tensor([ True, False])
    """
    return np.logical_or(input, other)


@pointwise(ref=lambda x, y: (x != 0) != (y != 0), samples=ties, promotion=Promotion.PREDICATE,
           differentiable=False, reads_bool_bytes=True)
def logical_xor(input: Array, other: Array) -> Array:
    """Logical XOR; nonzero elements count as true.

    >>> torch.logical_xor(torch.tensor([1, 1]), torch.tensor([0, 3]))
    tensor([ True, False])
    """
    return np.logical_xor(input, other)
