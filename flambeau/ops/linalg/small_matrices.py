"""Large batches of small matrices: loops over columns that treat the whole batch at once.

A LAPACK call costs 10 to 20 us here, whatever the size of the matrix. A batch with more matrices
than these loops have steps is cheaper in NumPy.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.target.eager_costs import MAX_COLUMNS_FACTORED_TOGETHER
from ..core.operator import Array

__all__ = ["eliminate_columns", "exceeds_columns", "factor_columns", "solve_halves", "swap_rows"]


def exceeds_columns(batch: tuple[int, ...], columns: int) -> bool:
    """Return whether a batch has enough matrices for a loop over columns."""
    return math.prod(batch) > 2 * columns


def solve_halves(A: Array, B: Array, lower: bool, unit: bool) -> Array:
    """Solve A X = B for triangular matrices of one batch shape, by halves down to single rows.

    The product between the halves is where the arithmetic is: half of it at the first level. A zero
    on the diagonal gives inf or nan, as BLAS's trsm does.
    """
    n = A.shape[-1]
    if n == 1:
        return B.copy() if unit else B / A
    half = n // 2
    first, second = slice(0, half), slice(half, n)
    if not lower:
        first, second = second, first
    X = np.empty(B.shape, B.dtype)
    X[..., first, :] = solve_halves(A[..., first, first], B[..., first, :], lower, unit)
    rest = B[..., second, :] - A[..., second, first] @ X[..., first, :]
    X[..., second, :] = solve_halves(A[..., second, second], rest, lower, unit)
    return X


def factor_columns(A: Array) -> tuple[Array, Array, Array] | None:
    """Return LU, row swaps (from 1) and the places of zero pivots as getrf does.

    None if LAPACK is the better choice.
    """
    k = min(A.shape[-2:])
    if not A.size or k > MAX_COLUMNS_FACTORED_TOGETHER or not exceeds_columns(A.shape[:-2], k):
        return None
    return eliminate_columns(A)


def eliminate_columns(A: Array) -> tuple[Array, Array, Array]:
    """Return LU, row swaps (from 1) and the places of zero pivots, column by column.

    The rest of the matrix is updated after each column, as in MKL.
    """
    k, batch = min(A.shape[-2:]), A.shape[:-2]
    LU, pivots, info = A.copy(), np.empty((*batch, k), np.int32), np.zeros(batch, np.int32)
    for i in range(k):
        column = LU[..., i:, i]
        size = abs(column.real) + abs(column.imag) if np.iscomplexobj(A) else abs(column)
        pivots[..., i] = size.argmax(-1) + i + 1
        swap_rows(LU, i, pivots[..., i] - 1)
        pivot = LU[..., i, i]
        zero = pivot == 0
        info[zero & (info == 0)] = i + 1
        LU[..., i + 1 :, i] /= np.where(zero, 1, pivot)[..., None]
        LU[..., i + 1 :, i + 1 :] -= LU[..., i + 1 :, i : i + 1] * LU[..., i : i + 1, i + 1 :]
    return LU, pivots, info


def swap_rows(A: Array, i: int, others: Array) -> None:
    """Exchange row `i` of each matrix with its row of that number in `others`, in place."""
    rows = others[..., None, None]
    row = A[..., i : i + 1, :].copy()
    A[..., i : i + 1, :] = np.take_along_axis(A, rows, -2)
    np.put_along_axis(A, rows, row, -2)
