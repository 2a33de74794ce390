"""Blocks: long chains of array operations, done piece by piece so that they stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.target.eager_costs import BLOCK_ELEMENTS, MIN_BIT_BLEND_ELEMENTS
from ..native.pointwise import try_kernel


def blockwise(body: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Call an elementwise, dtype-preserving body block by block.

    Arrays must have equal shapes. Small, strided and meta arrays are not blocked.
    """
    first = arrays[0]
    if first.size <= 2 * BLOCK_ELEMENTS or not all(
        a.__class__ is np.ndarray and a.flags.c_contiguous and a.shape == first.shape
        for a in arrays
    ):
        return body(*arrays)
    if (y := try_kernel(body, *arrays)) is not None:
        return y
    y = np.empty(first.shape, first.dtype)
    flat, pieces = y.reshape(-1), [a.reshape(-1) for a in arrays]
    for start in range(0, first.size, BLOCK_ELEMENTS):
        end = start + BLOCK_ELEMENTS
        flat[start:end] = body(*[p[start:end] for p in pieces])
    return y


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def choose(condition: np.ndarray, a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """np.where for a bool condition and operands of one dtype (or numbers).

    Large arrays are blended by their bits: NumPy's loop branches, and mispredicts one element in
    two on data like activations.
    """
    if condition.__class__ is not np.ndarray and hasattr(condition, "chosen"):
        return condition.chosen(a, b)  # one element of a formula
    typed: Any = a if isinstance(a, np.ndarray) else b
    dtype = typed.dtype
    a, b = np.asarray(a, dtype), np.asarray(b, dtype)
    bits = _BITS.get(dtype.itemsize)
    if condition.size <= MIN_BIT_BLEND_ELEMENTS or bits is None \
            or condition.__class__ is not np.ndarray:
        return np.where(condition, a, b)
    mask = condition.astype(bits)  # 1 wherever the byte is not 0
    np.negative(mask, mask)
    a, b = a.view(bits), b.view(bits)
    if not b.ndim and not b:
        y = np.bitwise_and(mask, a, out=mask if a.shape == mask.shape else None)
    else:
        y = np.bitwise_xor(a, b)
        inplace = y if y.shape == mask.shape else None
        y = np.bitwise_and(y, mask, out=inplace)
        y = np.bitwise_xor(y, b, out=inplace)
    return y.view(dtype)
