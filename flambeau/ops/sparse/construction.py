"""Construct sparse tensors from indices and values, and check their invariants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...autograd.tangents import carry
from ...tensor import layout as layouts
from ...tensor.dtypes import as_dtype
from ...tensor.layout import layout
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import legacy_name
from ...tensor.sparse import COMPRESSED, CompressedArray, CooArray, layout_name, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC, Array
from ..creation.creation import is_on_meta
from .dispatch import sparse_operator
from .invariants import CHECKS, check_compressed, check_coo
from .masked_arrays import read_values, read_values_at_pattern
from .meta_device import (
    check_common_compressed_device, check_common_device, move_to_meta, refuse_reading,
)


def as_values(values: Any, dtype: Any) -> Tensor:
    """Return the values as a tensor, cast to a dtype if one is given."""
    if not isinstance(values, Tensor):
        return PUBLIC["torch"]["tensor"](values, dtype=dtype)
    return values if dtype is None else values.to(as_dtype(dtype))


def as_indices(indices: Any, keep_int32: bool = False) -> np.ndarray:
    """The indices as integers."""
    array: np.ndarray = indices._array if isinstance(indices, Tensor) else np.asarray(indices)
    if keep_int32 and array.dtype == np.int32:
        return array
    if array.__class__ is MetaArray:
        return meta_array(array.shape, np.dtype(np.int64))
    return array.astype(np.int64, copy=False)


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


def sparse_coo_tensor(
    *args: Any, size: Any = None, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None, **kwargs: Any,
) -> Tensor:
    """`sparse_coo_tensor(indices, values, size)`: see `flambeau.ops.sparse.entry`."""
    if "indices" in kwargs:
        args = (kwargs["indices"], kwargs["values"], *args)
    elif "values" in kwargs:
        args = (*args, kwargs["values"])
    if len(args) == 3:
        *args, size = args  # type: ignore[assignment]
    if len(args) < 2:
        return _create_empty_coo(args, size, dtype, requires_grad, device)
    indices, values = as_indices(args[0]), as_values(args[1], dtype)
    indices, values = _place_parts(device, values, indices)
    check_common_device(indices=indices, values=values._array)
    array: Any = values._array
    if array.ndim == 0:
        array, values = array.reshape(1), values.reshape(1)
    shape = _infer_coo_shape(indices, array, size)
    if CHECKS.on if check_invariants is None else check_invariants:
        check_coo(indices, array, shape, bool(is_coalesced))
    elif size is None and indices.size and indices.min() < 0:
        raise RuntimeError("found negative index")
    source = values if values._requires_grad or values._tracked else carry(values, wrap(array))
    result = create_coo(source, indices, shape, bool(is_coalesced))
    if isinstance(args[1], Tensor) and requires_grad and result._node is not None:
        result = result.detach()
    return require_gradients(result) if requires_grad else result


def _place_parts(device: Any, values: Tensor, *indices: np.ndarray) -> tuple[Any, ...]:
    """Return indices and values on a device; None: where they are, or on the default device."""
    if not is_on_meta(device):
        return *indices, values if device is None else values.to(device)
    return *(meta_array(x.shape, x.dtype) for x in indices), values.to("meta")


def _create_empty_coo(
    args: Sequence[Any], size: Any, dtype: Any, requires_grad: bool, device: Any
) -> Tensor:
    shape = args[0] if args and size is None else size
    if isinstance(shape, Tensor) or not isinstance(shape, (tuple, list)):
        raise RuntimeError("indices must be sparse_dim x nnz, but got: []")
    kind = PUBLIC["torch"]["zeros"](0, dtype=dtype)._array.dtype
    empty: Any = allocate_coo(tuple(map(int, shape)), kind)
    result = wrap_sparse(move_to_meta(empty) if is_on_meta(device) else empty)
    return require_gradients(result) if requires_grad else result


def allocate_coo(shape: tuple[int, ...], kind: np.dtype, sparse_dim: int | None = None) -> CooArray:
    """Return a coordinate array without values."""
    sparse = len(shape) if sparse_dim is None else sparse_dim
    values = np.empty((0, *shape[sparse:]), kind)
    return CooArray(np.empty((sparse, 0), np.int64), values, shape, True)


def _infer_coo_shape(indices: np.ndarray, values: np.ndarray, size: Any) -> tuple[int, ...]:
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


def validate(kind: str, *args: Any, layout: Any = None, is_coalesced: Any = None,
             check_pinning: Any = None) -> None:
    """Raise RuntimeError for the first invariant violated by the parts of a tensor."""
    if kind == "coo":
        indices, values, size = args[:3]
        _infer_coo_shape(as_indices(indices), values._array, size)
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


# ------------------------------------------------------------------------------ compressed


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


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:
    """A tensor in a compressed layout: see `flambeau.ops.sparse.entry`."""
    form = layout
    if form is None:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got Strided")
    if form not in COMPRESSED:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but "
                           f"got {layout_name(form)}")
    compressed = as_indices(compressed_indices, keep_int32=True)
    plain = as_indices(plain_indices, keep_int32=True)
    compressed, plain, values = _place_parts(
        device, as_values(values, dtype), compressed, plain)
    names = ("crow_indices", "col_indices") if COMPRESSED[form][0] else \
        ("ccol_indices", "row_indices")
    check_common_compressed_device(compressed, plain, values._array, names)
    shape = _infer_compressed_shape(form, compressed, plain, values._array) if size is None \
        else tuple(int(n) for n in size)
    array = CompressedArray(form, compressed, plain, values._array, shape)
    if CHECKS.on if check_invariants is None else check_invariants:
        check_compressed(array)
    result = create_compressed(values, form, compressed, plain, shape)
    if requires_grad and result._node is not None:
        result = result.detach()
    return require_gradients(result) if requires_grad else result


def _infer_compressed_shape(
    form: layout, compressed: np.ndarray, plain: np.ndarray, values: np.ndarray
) -> tuple[int, ...]:
    by_row, blocked = COMPRESSED[form]
    batch = compressed.shape[:-1]
    first = len(batch) + 1
    height, width = values.shape[first : first + 2] if blocked else (1, 1)
    lines = compressed.shape[-1] - 1
    if plain.__class__ is MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    across = int(plain.max()) + 1 if plain.size else 0
    rows, columns = (lines, across) if by_row else (across, lines)
    return (*batch, rows * height, columns * width, *values.shape[first + (2 if blocked else 0) :])


def construct_in_layout(name: str, form: layout, first: str, second: str) -> Any:
    """`sparse_csr_tensor` and its like: the general function for one layout."""

    def function(*args: Any, **kwargs: Any) -> Tensor:
        parts = [kwargs.pop(n) for n in (first, second, "values") if n in kwargs]
        if kwargs.get("layout") not in (None, form):
            raise RuntimeError(f"{name} expected {form} layout but got {kwargs['layout']}")
        kwargs["layout"] = form
        return sparse_compressed_tensor(*args[: 3 - len(parts)], *parts, *args[3 - len(parts) :],
                                        **kwargs)

    function.__name__ = name
    return function


sparse_csr_tensor = construct_in_layout(
    "sparse_csr_tensor", layouts.sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = construct_in_layout(
    "sparse_csc_tensor", layouts.sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = construct_in_layout(
    "sparse_bsr_tensor", layouts.sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = construct_in_layout(
    "sparse_bsc_tensor", layouts.sparse_bsc, "ccol_indices", "row_indices")


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
