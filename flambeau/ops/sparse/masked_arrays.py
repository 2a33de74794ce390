"""Sparse masks: the values of a dense or sparse array at the stored positions of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.sparse import CompressedArray, CooArray
from . import formats


def read_values(a: Any, indices: np.ndarray) -> np.ndarray:
    """Return the elements or slices of a dense or sparse array at `indices` (axes, count) of its
    first axes; zeros where nothing is stored."""
    if isinstance(a, np.ndarray):
        return a[tuple(indices)] if indices.shape[0] else a[None].repeat(indices.shape[1], 0)
    a = formats.coalesce(formats.to_coo(a))
    if indices.shape[0] != a.sparse_dim:
        return read_values(formats.convert_coo_to_dense(a), indices)
    requested = CooArray(indices, a.values, a.shape).linear_indices()
    stored = a.linear_indices()
    result = np.zeros((requested.size, *a.values.shape[1:]), a.dtype)
    if stored.size:
        rank = np.searchsorted(stored, requested)
        rank[rank == stored.size] = 0
        is_stored = stored[rank] == requested
        result[is_stored] = a.values[rank[is_stored]]
    return result


def apply_mask(a: Any, pattern: Any) -> Any:
    """Return the values of a dense or sparse array at the positions of `pattern`, in its layout."""
    if isinstance(pattern, CooArray):
        indices = np.ascontiguousarray(pattern.indices)
        result = CooArray(indices, read_values(a, indices), pattern.shape)
        result.coalesced = pattern.coalesced
        return result
    return CompressedArray(
        pattern.layout, pattern.compressed, pattern.plain, read_values_at_pattern(a, pattern),
        pattern.shape,
    )


def read_values_at_pattern(a: Any, pattern: CompressedArray) -> np.ndarray:
    """Return the values of a dense or sparse array at the stored positions of a compressed one."""
    if isinstance(a, CompressedArray) and a.layout is pattern.layout \
            and a.values.shape == pattern.values.shape \
            and np.array_equal(a.compressed, pattern.compressed) \
            and np.array_equal(a.plain, pattern.plain):
        return a.values
    dense: np.ndarray = a if isinstance(a, np.ndarray) else formats.to_dense(a)
    rows, columns = _locate_values(pattern)
    batch = pattern.shape[: pattern.batch_dim]
    if not rows:  # a batch of no matrices
        return np.zeros(pattern.values.shape, dense.dtype)
    matrices = dense.reshape(len(rows), *dense.shape[pattern.batch_dim :])
    result = np.stack([matrix[row, column]
                       for matrix, row, column in zip(matrices, rows, columns, strict=True)])
    return result.reshape(*batch, *result.shape[1:])


def _locate_values(pattern: CompressedArray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the row and column of each value, or of each element of each block; one array of
    each per matrix of the batch."""
    height, width = pattern.block
    rows, columns = [], []
    for starts, plain in zip(*pattern.matrices(), strict=True):
        lines = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        row, column = (lines, plain) if pattern.by_row else (plain, lines)
        if pattern.blocked:
            row = row[:, None, None] * height + np.arange(height)[:, None]
            column = column[:, None, None] * width + np.arange(width)
        rows.append(row)
        columns.append(column)
    return rows, columns
