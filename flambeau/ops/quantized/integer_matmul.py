"""Products of integers: uint8 or int8 rows with int8 weights, summed exactly in int32.

Without a kernel the integers go through float32 products of depths whose sums float32 holds
exactly, which is as fast as a float32 product.
"""

from __future__ import annotations

import numpy as np

_EXACT_DEPTH = (1 << 24) // (255 * 128)  # products of so many pairs lie within float32's integers


def multiply_integers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The int32 product of (m, k) and (k, n) matrices of 8-bit integers."""
    depth = a.shape[1]
    if depth <= _EXACT_DEPTH:
        result: np.ndarray = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int32)
        return result
    result = np.zeros((a.shape[0], b.shape[1]), np.int32)
    for start in range(0, depth, _EXACT_DEPTH):
        end = min(start + _EXACT_DEPTH, depth)
        part = a[:, start:end].astype(np.float32) @ b[start:end].astype(np.float32)
        result += part.astype(np.int32)
    return result
