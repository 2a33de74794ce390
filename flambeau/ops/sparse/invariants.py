"""Invariants of sparse tensors: shapes are checked always, indices on request."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor import layout as layouts
from ...tensor.meta import MetaArray, meta_array
from ...tensor.sparse import CompressedArray
from ...tensor.tensor import Tensor
from .meta_device import refuse_reading


class CHECKS:
    """Whether constructors check by default; `check_sparse_tensor_invariants` sets it."""

    on = False


def _check(holds: Any, text: str) -> None:
    if not holds:
        raise RuntimeError(text)


def as_indices(indices: Any, keep_int32: bool = False) -> np.ndarray:
    """The indices as integers."""
    array: np.ndarray = indices._array if isinstance(indices, Tensor) else np.asarray(indices)
    if keep_int32 and array.dtype == np.int32:
        return array
    if array.__class__ is MetaArray:
        return meta_array(array.shape, np.dtype(np.int64))
    return array.astype(np.int64, copy=False)


def infer_coo_shape(indices: np.ndarray, values: np.ndarray, size: Any) -> tuple[int, ...]:
    """Return `size` if indices and values fit it; None: the smallest size that holds them."""
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    sparse, dense = indices.shape[0], values.ndim - 1
    if size is None:
        refuse_reading(indices)
        lengths = (indices.max(1) + 1).tolist() if indices.shape[1] else [0] * sparse
        return (*lengths, *values.shape[1:])
    shape = tuple(int(n) for n in size)
    if len(shape) != sparse + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse}, dense_dim = {dense}"
        )
    if values.shape[1:] != shape[sparse:]:
        expected = [values.shape[0], *shape[sparse:]]
        raise RuntimeError(
            f"values has incorrect size, expected {expected}, got {list(values.shape)}"
        )
    return shape


def check_coo(
    indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], coalesced: bool
) -> None:
    """Raise RuntimeError for an index outside `shape`, or for uncoalesced indices."""
    refuse_reading(indices)
    for axis, (index, length) in enumerate(zip(indices, shape, strict=False)):
        if not index.size:
            continue
        _check(index.min() >= 0, f"found negative index {index.min()} for dim {axis}")
        _check(
            index.max() < length,
            f"size is inconsistent with indices: for dim {axis}, size is {length} but found index "
            f"{index.max()}",
        )
    if coalesced and indices.shape[1] > 1:
        linear = np.ravel_multi_index(tuple(indices), shape[: indices.shape[0]])
        _check(
            (np.diff(linear) > 0).all(),
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
        )


def check_compressed(a: CompressedArray) -> None:
    """Raise RuntimeError for the first violated invariant of a compressed layout."""
    first, second = ("crow", "col") if a.by_row else ("ccol", "row")
    compressed_name, plain_name = f"{first}_indices", f"{second}_indices"
    _check_ranks(a, compressed_name, plain_name)
    height, width = a.block
    rows, columns = a.shape[a.batch_dim : a.batch_dim + 2]
    if a.blocked:
        _check(rows % height == 0, f"tensor shape[{a.batch_dim}] (={rows}) must be divisible with "
               f"blocksize[0] (={height}) as defined by values shape")
        _check(columns % width == 0, f"tensor shape[{a.batch_dim + 1}] (={columns}) must be "
               f"divisible with blocksize[1] (={width}) as defined by values shape")
    lines, across = rows // height, columns // width
    if not a.by_row:
        lines, across = across, lines
    kinds = "nrows", "ncols"
    name, other = kinds if a.by_row else kinds[::-1]
    _check(a.compressed.shape[-1] == lines + 1,
           f"{compressed_name}.shape[-1] must be equal to the number of "
           f"{'rows' if a.by_row else 'columns'} + 1 (={lines + 1}), but got "
           f"{a.compressed.shape[-1]}")
    _check(a.compressed.dtype == a.plain.dtype,
           f"{compressed_name} and {plain_name} must have the same dtype, but got "
           f"{a.compressed.dtype} and {a.plain.dtype}, respectively")
    if a.plain.__class__ is MetaArray:
        kind = a.layout.name.removeprefix("sparse_").upper()
        _check(a.nnz == 0, f"expected nnz to be 0 for sparse {kind} meta tensor but got {a.nnz}")
        return
    _check((a.compressed[..., 0] == 0).all(), f"`{compressed_name}[..., 0] == 0` is not satisfied.")
    _check((a.compressed[..., -1] == a.nnz).all(),
           f"`{compressed_name}[..., -1] == nnz` is not satisfied.")
    lengths = np.diff(a.compressed, axis=-1)
    _check(((lengths >= 0) & (lengths <= across)).all(),
           f"`0 <= {compressed_name}[..., 1:] - {compressed_name}[..., :-1] <= {other}` is not "
           "satisfied.")
    _check(((a.plain >= 0) & (a.plain < across)).all(),
           f"`0 <= {plain_name} < {other}` is not satisfied.")
    _check_sorted(a, compressed_name, plain_name, name)


def _check_ranks(a: CompressedArray, compressed_name: str, plain_name: str) -> None:
    _check(a.compressed.ndim >= 1,
           f"{compressed_name} must have dimensionality >= 1 but got {a.compressed.ndim}")
    _check(a.compressed.ndim == a.plain.ndim,
           f"{compressed_name} and {plain_name} dimensionalities must be equal but got "
           f"{a.compressed.ndim} and {a.plain.ndim}, respectively")
    _check(a.dense_dim >= 0, f"values must have dimensionality > sum of batch and block "
           f"dimensionalities (={a.batch_dim} + {2 if a.blocked else 0}) but got "
           f"{a.values.ndim}")
    _check(len(a.shape) == a.batch_dim + 2 + a.dense_dim,
           "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
           f"(={a.batch_dim} + 2 + {a.dense_dim}) but got {len(a.shape)}")
    _check(a.plain.shape[-1] == a.values.shape[a.batch_dim],
           f"{plain_name}.shape[-1] must be equal to nnz (={a.values.shape[a.batch_dim]}) as "
           f"defined by values.shape[{a.batch_dim}], but got {a.plain.shape[-1]}")


def _check_sorted(a: CompressedArray, compressed_name: str, plain_name: str, name: str) -> None:
    for starts, plain in zip(*a.matrices(), strict=True):
        line = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        inside = line[1:] == line[:-1]
        _check(
            (np.diff(plain)[inside] > 0).all(),
            f"`{plain_name}[..., {compressed_name}[..., i - 1]:{compressed_name}[..., i]] for all "
            f"i = 1, ..., {name} are sorted and distinct along the last dimension values` is not "
            "satisfied.",
        )


# ------------------------------------------------- public checks of the parts of a tensor


def validate(kind: str, *args: Any, layout: Any = None, is_coalesced: Any = None,
             check_pinning: Any = None) -> None:
    """Raise RuntimeError for the first invariant violated by the parts of a tensor."""
    if kind == "coo":
        indices, values, size = args[:3]
        infer_coo_shape(as_indices(indices), values._array, size)
        check_coo(as_indices(indices), values._array, tuple(size), bool(is_coalesced))
        return
    form = layout or (args[4] if len(args) > 4 else getattr(layouts, f"sparse_{kind}"))
    compressed, plain, values, size = args[:4]
    check_compressed(CompressedArray(
        form, compressed._array, plain._array, values._array, tuple(size)))


def validate_indices(
    is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int, nnz: int,
) -> None:
    """Raise RuntimeError for the first invariant violated by compressed indices."""
    form = layouts.sparse_csr if is_crow else layouts.sparse_csc
    values = np.empty(plain_idx._array.shape, bool)
    batch = compressed_idx._array.shape[:-1]
    shape = (*batch, cdim, dim) if is_crow else (*batch, dim, cdim)
    check_compressed(CompressedArray(
        form, compressed_idx._array, plain_idx._array, values, shape))
