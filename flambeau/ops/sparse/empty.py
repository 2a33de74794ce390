"""Sparse tensors that store no values, or only zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor import layout as layouts
from ...tensor.dtypes import as_dtype
from ...tensor.layout import layout
from ...tensor.sparse import COMPRESSED, CompressedArray, CooArray, wrap_sparse
from ...tensor.tensor import Tensor
from ..core.operator import PUBLIC
from ..creation.creation import is_on_meta
from .meta_device import move_to_meta


def allocate_coo(shape: tuple[int, ...], kind: np.dtype, sparse_dim: int | None = None) -> CooArray:
    """Return a coordinate array without values."""
    sparse = len(shape) if sparse_dim is None else sparse_dim
    values = np.empty((0, *shape[sparse:]), kind)
    return CooArray(np.empty((sparse, 0), np.int64), values, shape, True)


def allocate_in_layout(
    shape: tuple[int, ...], kind: np.dtype, form: layout, on_meta: bool = False
) -> Tensor:
    """Return a sparse tensor without values in any layout; blocks are single values."""
    array = _allocate_array(shape, kind, form)
    return wrap_sparse(move_to_meta(array) if on_meta else array)


def _allocate_array(shape: tuple[int, ...], kind: np.dtype, form: layout) -> Any:
    if form is layouts.sparse_coo:
        return allocate_coo(shape, kind)
    if form not in COMPRESSED:
        raise RuntimeError(f"unknown layout {form}")
    if len(shape) < 2:
        raise RuntimeError("torch.empty: Only batched sparse compressed (non-block) tensors are "
                           f"supported, but got size {list(shape)}")
    by_row, blocked = COMPRESSED[form]
    lines = shape[-2] if by_row else shape[-1]
    values = np.empty((*shape[:-2], 0, *((1, 1) if blocked else ())), kind)
    return CompressedArray(
        form, np.zeros((*shape[:-2], lines + 1), np.int64),
        np.empty((*shape[:-2], 0), np.int64), values, shape)


def with_dims(
    nnz: int, dense_dim: int, size: Any, blocksize: Any, index_dtype: Any, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: Any = None,
) -> Tensor:
    """Return a compressed tensor of a given number of values, with all parts zero."""
    shape, block = tuple(size), tuple(blocksize)
    batch = shape[: len(shape) - dense_dim - 2]
    line = len(batch) + (0 if COMPRESSED[layout][0] else 1)
    lines = shape[line] // (block[line - len(batch)] if block else 1)
    kind = as_dtype(dtype or PUBLIC["torch"]["get_default_dtype"]()).numpy
    index = as_dtype(index_dtype).numpy
    values = np.zeros((*batch, nnz, *block, *shape[len(shape) - dense_dim :]), kind)
    array = CompressedArray(
        layout, np.zeros((*batch, lines + 1), index), np.zeros((*batch, nnz), index), values,
        shape)
    return wrap_sparse(move_to_meta(array) if is_on_meta(device) else array)
