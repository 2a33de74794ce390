"""Blocks: long chains of array operations, done piece by piece so that they stay in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Elements of a piece: a few temporaries of this size fit the second-level cache.
BLOCK = 16384


def blockwise(body: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """body(*arrays), for a body that treats elements one by one and keeps the dtype.

    Arrays must have one shape. Small, strided and meta arrays are not cut up.
    """
    first = arrays[0]
    if first.size <= 2 * BLOCK or not all(
        a.__class__ is np.ndarray and a.flags.c_contiguous and a.shape == first.shape
        for a in arrays
    ):
        return body(*arrays)
    y = np.empty(first.shape, first.dtype)
    flat, pieces = y.reshape(-1), [a.reshape(-1) for a in arrays]
    for start in range(0, first.size, BLOCK):
        end = start + BLOCK
        flat[start:end] = body(*[p[start:end] for p in pieces])
    return y
