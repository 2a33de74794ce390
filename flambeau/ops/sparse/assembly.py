"""Operators between sparse tensors and their values, which carry derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.meta import MetaArray
from ...tensor.sparse import CompressedArray, CooArray, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from .dispatch import sparse_operator
from .empty import allocate_coo
from .masked_arrays import read_values, read_values_at_pattern
from .meta_device import move_to_meta


@sparse_operator(node="SparseCooTensorWithDimsAndTensorsBackward0", linear_in="values")
def create_coo(values: Array, indices: Any, shape: Any, coalesced: bool) -> Array:
    return CooArray(indices, values, shape, coalesced)  # type: ignore[return-value]


@create_coo.vjp("values")
def _(g: Any, indices: Any) -> Any:
    return _values_at(g, indices)


@sparse_operator(node="IndexBackward0", linear_in="input")
def _values_at(input: Array, indices: Any) -> Array:
    """Gather the slices of a dense or sparse array at given indices; zero if not stored."""
    return read_values(input, indices)


@_values_at.vjp("input")
def _(g: Any, indices: Any, input_shape: Any) -> Any:
    return create_coo(g, indices, input_shape, False)


@sparse_operator(node="SparseCompressedTensorBackward0", linear_in="values")
def create_compressed(
    values: Array, form: Any, compressed: Any, plain: Any, shape: Any
) -> Array:
    return CompressedArray(form, compressed, plain, values, shape)  # type: ignore[return-value]


@create_compressed.vjp("values")
def _(
    g: Any, form: Any, compressed: Any, plain: Any, shape: Any, values_shape: Any, values_dtype: Any
) -> Any:
    pattern = np.zeros(values_shape, values_dtype.numpy)
    return masked_values(g, CompressedArray(form, compressed, plain, pattern, shape))


@sparse_operator(linear_in="input")
def masked_values(input: Array, pattern: Any) -> Array:
    """Return the values of `input` at the positions of a compressed pattern."""
    return read_values_at_pattern(input, pattern)


@masked_values.vjp("input")
def _(g: Any, pattern: Any) -> Any:
    return create_compressed(
        g, pattern.layout, pattern.compressed, pattern.plain, pattern.shape
    )


def scatter_rows(g: Tensor, indices: np.ndarray, rows: int, padding_idx: int) -> Tensor:
    """Return a table's gradient: `g` (n, width) added at n indices, except at `padding_idx`.

    The table is (rows, width).
    """
    if g._array.__class__ is MetaArray:
        empty = allocate_coo((rows, g.shape[-1]), g._array.dtype, 1)
        return wrap_sparse(move_to_meta(empty))
    flat = indices.reshape(-1)
    if padding_idx >= 0:
        valid = np.flatnonzero(flat != padding_idx)
        flat, g = flat[valid], g[wrap(valid)]
    places = flat.astype(np.int64)[None]
    return create_coo(g, places, (rows, g.shape[-1]), False)
