"""Formats: sparse arrays of each layout made from one another and from dense arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...tensor.layout import layout, sparse_coo
from ...tensor.narrow_dtypes import widen
from ...tensor.sparse import COMPRESSED, CompressedArray, CooArray, SparseArray, layout_name
from ...tensor.tensor import Tensor, wrap


def add_up(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sum the runs of rows that begin at `starts`; for bools, whether any is true."""
    if values.dtype.kind == "b":
        return np.logical_or.reduceat(values, starts, 0)
    if values.dtype.kind == "V" or values.dtype == np.float16:
        return np.add.reduceat(values.astype(np.float32), starts, 0).astype(values.dtype)
    return np.add.reduceat(values, starts, 0, dtype=values.dtype)


def coalesce(a: CooArray) -> CooArray:
    """Sort the indices and merge duplicates."""
    if a.coalesced:
        return a
    if a.nnz < 2:
        return CooArray(a.indices.copy(), a.values.copy(), a.shape, True)
    linear = a.linear_indices()
    order = np.argsort(linear, kind="stable")
    linear = linear[order]
    first = np.empty(linear.size, bool)
    first[0] = True
    np.not_equal(linear[1:], linear[:-1], out=first[1:])
    values = a.values[order]
    if not first.all():
        starts = np.flatnonzero(first)
        values = add_up(values, starts) if values.size else values[starts]
        order = order[starts]
    indices = np.empty((a.sparse_dim, linear.size), np.int64)[:, : order.size]
    np.take(a.indices, order, 1, out=indices, mode="clip")
    return CooArray(indices, values, a.shape, True)


def convert_coo_to_dense(a: CooArray) -> np.ndarray:
    """Return the dense array; values at the same index add up."""
    a = coalesce(a)
    sparse, dense = a.shape[: a.sparse_dim], a.shape[a.sparse_dim :]
    result = np.zeros((math.prod(sparse), *dense), a.dtype)
    linear = a.linear_indices()
    if linear.size and not (linear.min() >= 0 and linear.max() < result.shape[0]):
        raise IndexError(f"a sparse tensor of size {list(a.shape)} has an index outside of it")
    result[linear] = a.values
    return result.reshape(a.shape)


def convert_dense_to_coo(array: np.ndarray, sparse_dim: int) -> CooArray:
    """Return the positions, along the first axes, at which an array is not all zero."""
    if array.ndim == 0:
        nonzero = int(bool(widen(array) != 0))
        return CooArray(np.empty((0, nonzero), np.int64), array.reshape(1)[:nonzero], (), True)
    occupied = widen(array) != 0
    if sparse_dim < array.ndim:
        occupied = occupied.any(axis=tuple(range(sparse_dim, array.ndim)))
    indices = np.nonzero(occupied)
    return CooArray(np.stack(indices), np.ascontiguousarray(array[indices]), array.shape, True)


def convert_compressed_to_coo(a: CompressedArray) -> CooArray:
    """Return the coordinates of every value; batches become sparse axes."""
    batch, (height, width) = a.shape[: a.batch_dim], a.block
    count = math.prod(batch)
    pointers = a.matrices()[0].astype(np.int64)
    lengths = np.diff(pointers, axis=1)
    lines = np.tile(np.arange(lengths.shape[1]), count).repeat(lengths.reshape(-1))
    plain = a.plain.reshape(-1).astype(np.int64)
    rows, columns = (lines, plain) if a.by_row else (plain, lines)
    values = a.values.reshape(count * a.nnz, *a.values.shape[a.batch_dim + 1 :])
    indices = np.stack([rows, columns]) if rows.size else np.empty((2, 0), np.int64)
    if a.blocked:
        indices, values = _drop_blocks(indices, values, height, width)
    if batch:
        per_batch = indices.shape[1] // count if count else 0
        of_batch = np.unravel_index(np.arange(count).repeat(per_batch), batch)
        indices = np.concatenate([np.stack(of_batch), indices])
    result = CooArray(indices, values, a.shape)
    sorted_already = a.by_row and not a.blocked and result.nnz < 2
    linear = result.linear_indices()
    result.coalesced = sorted_already or bool((linear[1:] > linear[:-1]).all())
    return result if result.coalesced else coalesce(result)


def _drop_blocks(
    indices: np.ndarray, values: np.ndarray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    rows = indices[0][:, None, None] * height + np.arange(height)[:, None]
    columns = indices[1][:, None, None] * width + np.arange(width)
    rows, columns = np.broadcast_arrays(rows, columns)
    flat = values.reshape(-1, *values.shape[3:])
    return np.stack([rows.reshape(-1), columns.reshape(-1)]), flat


def to_coo(a: SparseArray, sparse_dim: int | None = None) -> CooArray:
    """Convert the array to coordinates."""
    return convert_compressed_to_coo(a) if isinstance(a, CompressedArray) else a  # type: ignore[return-value]


def to_dense(a: SparseArray) -> np.ndarray:
    """Convert the array to dense."""
    return convert_coo_to_dense(to_coo(a))


def compress(
    a: CooArray, form: layout, block: tuple[int, int] | None = None, index: Any = np.int64
) -> CompressedArray:
    """Compress the coordinates of a matrix, with or without dense axes."""
    if a.sparse_dim != 2:
        raise RuntimeError(
            f"only tensors with two sparse dimensions convert to the {layout_name(form)} layout")
    by_row, blocked = COMPRESSED[form]
    a = coalesce(a)
    rows, columns, values = a.indices[0], a.indices[1], a.values
    height, width = block if blocked and block is not None else (1, 1)
    if blocked:
        rows, columns, values = _gather_blocks(a, height, width)
    lines, plain = (rows, columns) if by_row else (columns, rows)
    if not by_row:
        order = np.lexsort((plain, lines))
        lines, plain, values = lines[order], plain[order], values[order]
    length = a.shape[0] // height if by_row else a.shape[1] // width
    pointers = np.zeros(length + 1, index)
    np.cumsum(np.bincount(lines, minlength=length), out=pointers[1:])
    return CompressedArray(
        form, pointers, np.ascontiguousarray(plain).astype(index, copy=False),
        np.ascontiguousarray(values), a.shape,
    )


def _gather_blocks(
    a: CooArray, height: int, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows and columns of the blocks that are not empty, and the blocks."""
    across = a.shape[1] // width
    number = a.indices[0] // height * across + a.indices[1] // width
    present, of = np.unique(number, return_inverse=True)
    blocks = np.zeros((present.size, height, width, *a.values.shape[1:]), a.dtype)
    blocks[of.reshape(-1), a.indices[0] % height, a.indices[1] % width] = a.values
    return present // max(across, 1), present % max(across, 1), blocks


def convert_dense_to_compressed(
    array: np.ndarray, form: layout, block: tuple[int, int] | None, dense_dim: int,
    index: Any = np.int64,
) -> CompressedArray:
    """Compress a matrix, or a batch of matrices with equally many values each."""
    batch_dim = array.ndim - 2 - dense_dim
    if batch_dim < 0:
        raise RuntimeError(
            f"to_sparse for Strided to {layout_name(form)} conversion does not support input with "
            f"{array.ndim} dimensions and dense_dim={dense_dim}"
        )
    if batch_dim == 0:
        return compress(convert_dense_to_coo(array, 2), form, block, index)
    batch = array.shape[:batch_dim]
    if 0 in batch:
        raise RuntimeError(
            f"to_sparse_{form.name.removeprefix('sparse_')}: Expected product of batch dimensions "
            "to be non-zero."
        )
    parts = [
        compress(convert_dense_to_coo(matrix, 2), form, block, index)
        for matrix in array.reshape(math.prod(batch), *array.shape[batch_dim:])
    ]
    if len({part.nnz for part in parts}) > 1:
        raise RuntimeError("Expect the same number of specified elements per batch.")
    pointers, plain, values = (
        np.stack([getattr(part, name) for part in parts])
        for name in ("compressed", "plain", "values")
    )
    return CompressedArray(
        form, pointers.reshape(*batch, *pointers.shape[1:]),
        plain.reshape(*batch, *plain.shape[1:]), values.reshape(*batch, *values.shape[1:]),
        array.shape,
    )


def convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False, out: Any = None
) -> Tensor:
    """Compress sorted row indices to the start of each of `size` rows."""
    result = np.zeros(size + 1, np.int32 if out_int32 else np.int64)
    np.cumsum(np.bincount(input._array, minlength=size), out=result[1:])
    return wrap(result)


def convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False,
    out: Any = None,
) -> Tensor:
    """Expand compressed rows to indices (2, nnz), optionally transposed."""
    starts, plain = crow_indices._array, col_indices._array
    lines = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    parts = [plain, lines] if transpose else [lines, plain]
    return wrap(np.stack(parts).astype(np.int32 if out_int32 else np.int64))


def _convert_each_matrix(a: CompressedArray, form: layout, block: Any) -> CompressedArray:
    """A batch of compressed matrices in another compressed layout, one by one."""
    batch, rest = a.shape[: a.batch_dim], a.shape[a.batch_dim :]
    values: Any = a.values.reshape(-1, *a.values.shape[a.batch_dim :]) if 0 not in batch else []
    parts = [
        compress(convert_compressed_to_coo(CompressedArray(a.layout, starts, plain, v, rest)), form,
                 block,
                 a.plain.dtype)
        for starts, plain, v in zip(*a.matrices(), values, strict=True)
    ]
    if not parts:
        return convert_dense_to_compressed(to_dense(a), form, block, a.dense_dim, a.plain.dtype)
    pointers, plain, stored = (
        np.stack([getattr(part, name) for part in parts])
        for name in ("compressed", "plain", "values")
    )
    return CompressedArray(
        form, pointers.reshape(*batch, *pointers.shape[1:]),
        plain.reshape(*batch, *plain.shape[1:]), stored.reshape(*batch, *stored.shape[1:]), a.shape,
    )


def to_layout(a: Any, form: layout, block: Any = None, dense_dim: int | None = None) -> Any:
    """Convert a dense or sparse array to another layout."""
    if isinstance(a, np.ndarray):
        if form is sparse_coo:
            return convert_dense_to_coo(a, a.ndim - (dense_dim or 0))
        return convert_dense_to_compressed(a, form, block, dense_dim or 0)
    if a.layout is form and (block is None or a.block == tuple(block)):
        return a
    if form is sparse_coo:
        return to_coo(a)
    index = a.plain.dtype if isinstance(a, CompressedArray) else np.int64
    if isinstance(a, CompressedArray) and a.batch_dim:
        return _convert_each_matrix(a, form, block)
    return compress(to_coo(a), form, block, index)
