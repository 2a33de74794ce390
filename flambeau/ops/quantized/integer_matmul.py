"""Products of integers: uint8 or int8 rows with int8 weights, summed exactly in int32.

Without a kernel the integers go through float32 products of depths whose sums float32 holds
exactly, which is as fast as a float32 product.
"""

from __future__ import annotations

import numpy as np

from ...native.target.cost_model import MIN_BYTE_PACKING_MULTIPLICATIONS
from ..native.byte_products import try_byte_product, pack_panels

_EXACT_DEPTH = (1 << 24) // (255 * 128)  # sums of that many products are exact in float32


def multiply_integers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the int32 product of (m, k) and (k, n) matrices of 8-bit integers."""
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


def multiply_int8(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the int32 product of two int8 matrices, by a kernel if they are large.

    The kernel's rows are unsigned: 128 more, which the sums of the columns undo.
    """
    panels = pack_panels(b.T) if a.size * b.shape[1] >= MIN_BYTE_PACKING_MULTIPLICATIONS else None
    if panels is not None:
        rows = np.zeros((a.shape[0], -(-a.shape[1] // 4) * 4), np.uint8)
        rows[:, : a.shape[1]] = a.view(np.uint8) ^ np.uint8(0x80)
        sums = np.int32(128) * b.sum(0, dtype=np.int32)
        if (y := try_byte_product(rows, panels, sums, None, False)) is not None:
            return y
    return multiply_integers(a, b)
