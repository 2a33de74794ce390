"""NumPy's dtypes and functions for the types and reductions of the loop IR."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from .ir import ReduceOp, Type

REDUCTION_UFUNCS = {
    ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MAXIMUM: np.maximum,
    ReduceOp.MINIMUM: np.minimum, ReduceOp.ANY: np.logical_or, ReduceOp.ALL: np.logical_and,
}


def take_maximum(a: Any, b: Any) -> Any:
    """Return the maximum; of 0.0 and -0.0 the first operand."""
    return np.maximum(b, a)


def take_minimum(a: Any, b: Any) -> Any:
    """Return the minimum; of 0.0 and -0.0 the first operand."""
    return np.minimum(b, a)


@cache
def dtype_of(type: Type) -> np.dtype:
    """Return NumPy's dtype of a type."""
    if type is Type.BF16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(type.value)


def identity_element(fold: ReduceOp, dtype: np.dtype) -> Any:
    """Return the result of a reduction over no elements."""
    if fold in (ReduceOp.SUM, ReduceOp.ANY, ReduceOp.LAST):
        return 0
    if fold in (ReduceOp.PRODUCT, ReduceOp.ALL):
        return 1
    if dtype.kind == "b":
        return fold is ReduceOp.MINIMUM
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if fold is ReduceOp.MAXIMUM else limits.max
    return -math.inf if fold is ReduceOp.MAXIMUM else math.inf
