"""Sparse matrices from their diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor import layout as layouts
from ...tensor.promotion import legacy_name
from ...tensor.sparse import CooArray, layout_name, wrap_sparse
from ...tensor.tensor import Tensor
from .empty import allocate_in_layout


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None
) -> Tensor:
    """Build a matrix from the rows of `diagonals`, placed at `offsets` from the main diagonal."""
    rows = np.atleast_2d(diagonals._array)
    where = np.atleast_1d(offsets._array)
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if rows.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if where.dtype != np.int64:
        raise RuntimeError(
            f"Offset Tensor must have dtype Long but got {legacy_name(offsets.dtype)}")
    if where.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if rows.shape[0] != where.size:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({where.size})"
        )
    if np.unique(where).size != where.size:
        raise RuntimeError("Offset tensor contains duplicate values")
    parts, values = [], []
    for row, offset in zip(rows, where.tolist(), strict=True):
        start = max(offset, 0)
        columns = np.arange(start, max(start, min(row.size, shape[1], shape[0] + offset)))
        parts.append(np.stack([columns - offset, columns]))
        values.append(row[columns])
    if not parts:
        return allocate_in_layout(tuple(shape), rows.dtype, layout or layouts.sparse_coo)
    result = wrap_sparse(CooArray(np.concatenate(parts, 1), np.concatenate(values), tuple(shape)))
    if layout is None or layout is layouts.sparse_coo:
        return result
    if layout not in (layouts.sparse_csr, layouts.sparse_csc):
        raise RuntimeError(
            "Only output layouts (Sparse, SparseCsr, SparseCsc) are supported, got "
            f"{layout_name(layout)}"
        )
    return result.to_sparse(layout=layout)
