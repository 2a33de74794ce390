"""Layouts of a MaskedTensor's data and mask: stored elements, comparison, conversion."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...canonical_masks import _where
from ...tensor.layout import sparse_coo, sparse_csr, strided
from ...tensor.tensor import Tensor

LAYOUTS = (strided, sparse_coo, sparse_csr)


def tensors_match(
    a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08
) -> bool:
    """Return whether two plain tensors of one layout are equal, or close unless `exact`."""
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    if a.layout is not strided:
        return same_places(a, b) and tensors_match(a.values(), b.values(), exact, rtol, atol)
    if a.dim() != b.dim():
        return False
    if exact:
        return a.shape == b.shape and bool(ops.eq(a, b).all())
    return bool(ops.allclose(a, b.to(a.dtype), rtol, atol))


def same_places(a: Tensor, b: Tensor) -> bool:
    """Return whether two sparse tensors of one layout have the same sparsity pattern."""
    return all(tensors_match(x, y) for x, y in zip(_indices(a), _indices(b), strict=True))


def _indices(x: Tensor) -> tuple[Tensor, ...]:
    return (x.indices(),) if x.is_sparse else (x.crow_indices(), x.col_indices())


def values_of(x: Any) -> Any:
    """Return a sparse tensor's stored elements; anything else unchanged."""
    return x.values() if isinstance(x, Tensor) and x.layout is not strided else x


def with_values(x: Tensor, values: Tensor) -> Tensor:
    """Return a sparse tensor with the indices of `x` and other values."""
    if x.is_sparse:
        coo: Tensor = ops.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True)
        return coo
    csr: Tensor = ops.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
    return csr


def prepare(data: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Check that data and mask have one layout and number of elements; return them, coalesced."""
    if data.layout is not mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout is sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data.layout in (sparse_coo, sparse_csr) and data._nnz() != mask._nnz():
        data = _where(mask, data, ops.zeros((), dtype=data.dtype))
    return data, mask


def check_places(data: Tensor, mask: Tensor) -> None:
    """Raise TypeError for unsupported layouts; ValueError if sparse data and mask differ."""
    if data.layout not in LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is sparse_coo and not same_places(data, mask):
        raise ValueError("data and mask are both sparse COO tensors but do not have the same "
                         "indices.")
    if data.layout is sparse_csr and not same_places(data, mask):
        raise ValueError("data and mask are both sparse CSR tensors but do not share either crow "
                         "or col indices.")


def convert(data: Tensor, mask: Tensor, layout: Any) -> tuple[Tensor, Tensor]:
    """Convert data and mask to another layout; a sparse one stores the mask's True elements."""
    if layout is strided:
        return data.to_dense(), mask.to_dense()
    mask = mask.to_dense()
    mask = mask.to_sparse().coalesce() if layout is sparse_coo else mask.to_sparse_csr()
    return data.to_dense().sparse_mask(mask), mask
