"""torch.sparse.mm, with the option to reduce products by mean, amax or amin instead of a sum."""

from __future__ import annotations

import numpy as np

from ...tensor.layout import sparse_csr
from ...tensor.sparse import CompressedArray
from ...tensor.tensor import Tensor, wrap
from . import formats
from .assembly import create_compressed
from .conversion import get_values
from .products import sparse_mm

_REDUCTIONS = ("sum", "mean", "amax", "amin")


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """`torch.sparse.mm`, whose gradient for a sparse operand keeps its sparsity pattern."""
    return sparse_mm(mat1, mat2) if reduce is None else _reduce_product(mat1, mat2, reduce)


def _reduce_product(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """Reduce mat1[i, k] * mat2[k, j] over the stored k of each row i; 0 for empty rows."""
    reduce = {"min": "amin", "max": "amax"}.get(reduce, reduce)
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got "
                           f"{reduce}")
    if mat1.layout is not sparse_csr:
        raise RuntimeError("torch.sparse.mm: reduce is supported for sparse CSR tensors only")
    if reduce == "sum":
        return sparse_mm(mat1, mat2)
    a = _require_compressed(mat1)
    if reduce == "mean":
        lengths = np.diff(a.compressed)
        count = np.repeat(np.maximum(lengths, 1), lengths).astype(a.dtype)
        values = get_values(mat1) / wrap(count)
        scaled = create_compressed(
            values, a.layout, a.compressed, a.plain, a.shape)
        return sparse_mm(scaled, mat2)
    rows = formats.convert_compressed_to_coo(a).indices[0]
    return _reduce_to_extreme(mat1, mat2, rows, reduce)


def _require_compressed(x: Tensor) -> CompressedArray:
    array = x._array
    assert isinstance(array, CompressedArray)
    return array


def _reduce_to_extreme(mat1: Tensor, mat2: Tensor, rows: np.ndarray, reduce: str) -> Tensor:
    a = _require_compressed(mat1)
    terms = get_values(mat1)[:, None] * mat2[wrap(a.plain)]
    zero = wrap(np.zeros((a.shape[0], mat2.shape[1]), a.dtype))
    index = wrap(np.broadcast_to(rows[:, None], terms.shape).copy())
    result: Tensor = zero.scatter_reduce(0, index, terms, reduce, include_self=False)
    return result
