"""torch.masked's reductions of sparse tensors: over the values that are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.sparse import CompressedArray, CooArray, SparseTensor, wrap_sparse
from ...tensor.tensor import Tensor
from . import formats
from .conversion import coalesce
from .reductions import sum_compressed, sum_over

_UFUNCS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def reduce_masked(
    name: str, input: Tensor, axes: tuple[int, ...], keepdim: bool, dtype: Any, mask: Any,
    identity: Any,
) -> Tensor:
    """Reduce the stored values under `mask` over axes: sum, product, maximum or minimum.

    The result is always sparse. All of its axes are, and it stores no zeros, where no sparse axis
    of the input is left; of no values at all it is then the identity. Compressed
    rows require keepdim.
    """
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {input.layout} tensor input")
    x = (input if mask is None else input.sparse_mask(_convert_mask(input, mask))).to(dtype)
    if name == "sum":
        return _sum_stored(x, axes, keepdim)
    a: Any = x._array
    if isinstance(a, CompressedArray):
        if not keepdim:
            raise AssertionError(
                "reduction operations on CSR tensors with keepdim=False is unsupported")
        result = _reduce(formats.to_coo(a), axes, True, _UFUNCS[name])
        return wrap_sparse(formats.compress(result, a.layout, None, a.plain.dtype))
    result = _reduce(formats.coalesce(a), axes, keepdim, _UFUNCS[name])
    if not set(range(a.sparse_dim)) <= set(axes):
        return wrap_sparse(result)
    dense = result.values[0] if result.nnz else np.full(a.values.shape[1:], identity, a.dtype)
    dense = dense.reshape(result.shape)
    return wrap_sparse(formats.convert_dense_to_coo(dense, dense.ndim))


def _convert_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The mask in the layout and shape of the input."""
    if mask.shape != input.shape:
        mask = (mask.to_dense() if isinstance(mask, SparseTensor) else mask).expand(input.shape)
    if mask.layout is input.layout:
        return mask
    array: Any = input._array
    block = array.block if isinstance(array, CompressedArray) and array.blocked else None
    return mask.to_sparse(layout=input.layout, blocksize=block)


def _sum_stored(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    if isinstance(x._array, CompressedArray):
        return sum_compressed(x, axes, keepdim)
    result: Tensor = sum_over(coalesce(x), axes, keepdim)
    if isinstance(result, SparseTensor):
        return result
    return result.to_sparse()


def _reduce(a: CooArray, axes: tuple[int, ...], keepdim: bool, ufunc: np.ufunc) -> CooArray:
    """A coalesced array reduced over axes: over sparse ones, runs of equal places."""
    sparse = a.sparse_dim
    over_dense = tuple(axis - sparse + 1 for axis in axes if axis >= sparse)
    values = a.values
    for axis in sorted(over_dense, reverse=True):
        values = ufunc.reduce(values, axis, keepdims=keepdim)
    remaining = [axis for axis in range(sparse) if axis not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape)) if keepdim else \
        tuple(n for i, n in enumerate(a.shape) if i not in axes)
    keys = CooArray(
        a.indices[remaining], values, tuple(a.shape[k] for k in remaining)
    ).linear_indices()
    order = np.argsort(keys, kind="stable")
    result, starts = np.unique(keys[order], return_index=True)
    chosen = order[starts]
    if values.size:
        values = ufunc.reduceat(values[order], starts, 0, dtype=values.dtype)
    else:
        values = values[:0]
    indices = np.zeros((sparse, result.size), np.int64)
    indices[remaining] = a.indices[remaining][:, chosen]
    return CooArray(indices if keepdim else indices[remaining], values, shape, True)
