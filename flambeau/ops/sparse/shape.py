"""Shape operations on sparse tensors: transpose, slice, index, join, resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor.meta import meta_array
from ...tensor.sparse import TRANSPOSED, CompressedArray, CooArray, SparseTensor
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim, canonicalize_order
from ..core.operator import Array
from ..view.slices import canonicalize_start, check_selected
from . import formats
from .dispatch import implements, refuse, register_in_place, sparse_operator
from .meta_device import forget_places, move_to_meta, resize_on_meta


# ------------------------------------------------------------------------------ transposes

def _swap(a: Any, dim0: int, dim1: int) -> Any:
    rank = a.ndim
    order = list(range(rank))
    order[dim0], order[dim1] = dim1, dim0
    return _permute_axes(a, tuple(order), transposed=True)


def _permute_axes(a: Any, order: tuple[int, ...], transposed: bool = False) -> Any:
    if isinstance(a, CompressedArray):
        return _permute_compressed(a, order)
    sparse = a.sparse_dim
    if any((axis < sparse) != (i < sparse) for i, axis in enumerate(order)):
        raise RuntimeError(
            "transpose(sparse): only supports transposing two sparse dimensions or two dense "
            "dimensions" if sum(i != axis for i, axis in enumerate(order)) == 2 else
            "permute(sparse_coo): cannot permute sparse and dense dimensions with each other")
    indices = np.ascontiguousarray(a.indices[list(order[:sparse])])
    axes = (0, *(axis - sparse + 1 for axis in order[sparse:]))
    moved = order[:sparse] != tuple(range(sparse))
    result = CooArray(indices, np.ascontiguousarray(a.values.transpose(axes)),
                      tuple(a.shape[axis] for axis in order))
    result.coalesced = (a.coalesced and not moved) or (transposed and result.nnz < 2)
    return result


def _permute_compressed(a: CompressedArray, order: tuple[int, ...]) -> CompressedArray:
    batch = a.batch_dim
    if order == tuple(range(a.ndim)):
        return a
    if a.dense_dim:
        raise RuntimeError("transpose(): hybrid sparse compressed tensors with dense dimensions "
                           "are not supported")
    if order[batch:] == (batch + 1, batch):
        shape = (*a.shape[:batch], a.shape[batch + 1], a.shape[batch])
        swapped = a.values.swapaxes(-1, -2) if a.blocked else a.values
        return CompressedArray(
            TRANSPOSED[a.layout], a.compressed, a.plain, np.ascontiguousarray(swapped), shape)
    if order[batch:] == (batch, batch + 1):
        axes = order[:batch]
        parts = [x.transpose(*axes, *range(batch, x.ndim))
                 for x in (a.compressed, a.plain, a.values)]
        return CompressedArray(
            a.layout, parts[0], parts[1], parts[2], tuple(a.shape[axis] for axis in order))
    raise RuntimeError(
        "transpose(): can only transpose 2D sparse compressed tensors or two batch dimensions")


@sparse_operator(node="TransposeBackward0", linear_in="input")
def _transpose(input: Array, dim0: int, dim1: int) -> Array:
    return _swap(input, dim0, dim1)


@_transpose.vjp("input")
def _(g: Any, dim0: Any, dim1: Any) -> Any:
    return g.transpose(dim0, dim1)


@sparse_operator(node="TBackward0", linear_in="input")
def _t(input: Array) -> Array:
    return input if input.ndim < 2 else _swap(input, 0, 1)


@_t.vjp("input")
def _(g: Any) -> Any:
    return g.t()


@sparse_operator(node="PermuteBackward0", linear_in="input")
def _permute(input: Array, order: Any) -> Array:
    return _permute_axes(input, order)


@_permute.vjp("input")
def _(g: Any, order: Any) -> Any:
    return g.permute(tuple(np.argsort(order).tolist()))


@implements("transpose", "swapaxes", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two axes, both sparse or both dense."""
    rank = input.dim()
    return _transpose(input, canonicalize_dim(dim0, rank), canonicalize_dim(dim1, rank))


@implements("t")
def t(input: Tensor) -> Tensor:
    """Transpose a matrix."""
    if input.dim() > 2 or (input.is_sparse and input.dense_dim()):
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{input.sparse_dim()} sparse and {input.dense_dim()} dense dimensions")
    return _t(input)


@implements("permute")
def permute(input: Tensor, *axes_: Any, dims: Any = None) -> Tensor:
    """Reorder the axes, sparse ones only among themselves."""
    dims = axes_ if dims is None else (dims,)
    order = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return _permute(input, tuple(canonicalize_order(order, input.dim())))


_methods: Any = SparseTensor
_methods.T = property(lambda self: t(self) if self.dim() <= 2 else
                      permute(self, *range(self.dim())[::-1]))
_methods.mT = property(lambda self: transpose(self, -2, -1))
for _name in ("transpose", "t", "swapaxes", "swapdims"):
    register_in_place(_name)


# ------------------------------------------------------------------------------ slices


def _narrow_axis(a: Any, dim: int, start: int, length: int) -> Any:
    if isinstance(a, CompressedArray):
        result = formats.convert_dense_to_compressed(
            np.take(formats.to_dense(a), range(start, start + length), dim), a.layout,
            a.block if a.blocked else None, a.dense_dim)
        return result
    shape = (*a.shape[:dim], length, *a.shape[dim + 1 :])
    if dim >= a.sparse_dim:
        axis = dim - a.sparse_dim + 1
        return CooArray(a.indices.copy(), np.take(a.values, range(start, start + length), axis),
                        shape, a.coalesced)
    inside = (a.indices[dim] >= start) & (a.indices[dim] < start + length)
    indices = a.indices[:, inside]
    indices[dim] -= start
    return CooArray(indices, a.values[inside], shape, a.coalesced)


@sparse_operator(node="NarrowCopyBackward0", linear_in="input")
def _narrow(input: Array, dim: int, start: int, length: int) -> Array:
    return _narrow_axis(input, dim, start, length)


@_narrow.vjp("input")
def _(g: Any, dim: Any, start: Any, input_shape: Any) -> Any:
    return _shifted(g, dim, start, input_shape)


@sparse_operator(node="NarrowCopyBackwardBackward0")
def _shifted(input: Array, dim: Any, start: Any, shape: Any) -> Array:
    """Embed a slice of an axis into zeros of the full shape."""
    a: Any = input
    if isinstance(a, np.ndarray):
        result = np.zeros(shape, a.dtype)
        result[(slice(None),) * dim + (slice(start, start + a.shape[dim]),)] = a
        return result
    if dim >= a.sparse_dim:
        return formats.convert_dense_to_coo(  # type: ignore[return-value]
            _shifted.operator.body(formats.to_dense(a), dim, start, shape), a.sparse_dim)
    indices = a.indices.copy()
    indices[dim] += start
    return CooArray(indices, a.values, tuple(shape), a.coalesced)  # type: ignore[return-value]


@implements("narrow_copy", "narrow")
def narrow_copy(input: Tensor, dim: int, start: Any, length: int, *, out: Any = None) -> Tensor:
    """Copy `length` indices of an axis, beginning at `start`."""
    axis = canonicalize_dim(dim, input.dim())
    return _narrow(input, axis, canonicalize_start(int(start), length, input.shape[axis]), length)


def _select_entry(a: Any, dim: int, index: int) -> Any:
    if isinstance(a, CompressedArray):
        return _select_compressed(a, dim, index)
    shape = (*a.shape[:dim], *a.shape[dim + 1 :])
    if dim >= a.sparse_dim:
        axis = dim - a.sparse_dim + 1
        return CooArray(a.indices.copy(), np.take(a.values, index, axis), shape, a.coalesced)
    inside = a.indices[dim] == index
    others = [k for k in range(a.sparse_dim) if k != dim]
    if not others:
        return a.values[inside].sum(0, dtype=a.dtype)
    return CooArray(np.ascontiguousarray(a.indices[others][:, inside]), a.values[inside], shape,
                    a.coalesced)


def _select_compressed(a: CompressedArray, dim: int, index: int) -> Any:
    batch = a.batch_dim
    if dim < batch:
        parts = [np.take(x, index, dim) for x in (a.compressed, a.plain, a.values)]
        shape = (*a.shape[:dim], *a.shape[dim + 1 :])
        return CompressedArray(a.layout, parts[0], parts[1], parts[2], shape)
    if dim >= batch + 2:
        axis = dim - 2 + (3 if a.blocked else 1)
        shape = (*a.shape[:dim], *a.shape[dim + 1 :])
        return CompressedArray(a.layout, a.compressed, a.plain, np.take(a.values, index, axis),
                               shape)
    if batch:
        raise RuntimeError("select(): selecting sparse dimensions is not supported for batched "
                           "sparse compressed tensors.")
    return _select_entry(formats.to_coo(a), dim, index)


@sparse_operator(node="SelectBackward0", linear_in="input")
def _select(input: Array, dim: int, index: int) -> Array:
    return _select_entry(input, dim, index)


@_select.vjp("input")
def _(g: Any, input: Any, dim: Any, index: Any) -> Any:
    return _shifted(g.unsqueeze(dim), dim, index, tuple(input.shape))


@implements("select")
def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """Select one index of an axis, which is removed."""
    rank = input.dim()
    if rank == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis, index = canonicalize_dim(dim, rank), int(index)
    check_selected(index, input.shape, axis)
    return _select(input, axis, index % input.shape[axis])


@implements("unbind")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis."""
    axis = canonicalize_dim(dim, input.dim())
    return tuple(select(input, axis, i) for i in range(input.shape[axis]))


@implements("__iter__")
def iterate(self: Tensor) -> Any:
    """Iterate over the slices along the first axis."""
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


@implements("__getitem__")
def getitem(self: Tensor, key: Any) -> Tensor:
    """Index axis by axis with integers, slices of step 1, None or index tensors."""
    keys = key if isinstance(key, tuple) else (key,)
    axis, result = 0, self
    skipped = self.dim() - sum(k is not None and k is not Ellipsis for k in keys)
    for k in keys:
        if k is None:
            result, axis = unsqueeze(result, axis), axis + 1
        elif k is Ellipsis:
            axis += skipped
        elif isinstance(k, slice):
            start, stop, step = k.indices(result.shape[axis])
            if step != 1:
                refuse("slice.Tensor", (self,))
            if (start, stop) != (0, result.shape[axis]):
                result = narrow_copy(result, axis, start, max(stop - start, 0))
            axis += 1
        elif isinstance(k, Tensor) and k.dim():
            result, axis = index_select(result, axis, k), axis + 1
        else:
            result = select(result, axis, k)
    return result


# ------------------------------------------------------------------------------ index_select


def _select_indices(a: Any, dim: int, index: np.ndarray) -> Any:
    shape = (*a.shape[:dim], index.size, *a.shape[dim + 1 :])
    if isinstance(a, CompressedArray):
        result = formats.coalesce(_select_indices(formats.to_coo(a), dim, index))
        return formats.to_layout(result, a.layout, a.block if a.blocked else None)
    if dim >= a.sparse_dim:
        axis = dim - a.sparse_dim + 1
        return CooArray(a.indices.copy(), np.take(a.values, index, axis), shape, a.coalesced)
    order = np.argsort(a.indices[dim], kind="stable")
    sorted_index = a.indices[dim][order]
    low, high = np.searchsorted(sorted_index, index), np.searchsorted(sorted_index, index, "right")
    count = high - low
    target = np.repeat(np.arange(index.size), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    source = order[np.repeat(low, count) + offset]
    indices = a.indices[:, source]
    indices[dim] = target
    return CooArray(indices, a.values[source], shape, a.coalesced and dim == 0)


@sparse_operator(node="IndexSelectBackward0", linear_in="input")
def _index_select(input: Array, dim: int, index: np.ndarray) -> Array:
    return _select_indices(input, dim, index)


@_index_select.vjp("input")
def _(g: Any, dim: Any, index: Any, input_shape: Any) -> Any:
    return _index_added(g, dim, index, input_shape)


@sparse_operator(node="IndexAddBackward0")
def _index_added(input: Array, dim: Any, index: np.ndarray, shape: Any) -> Array:
    """Scatter slices back to their source indices, adding duplicates."""
    a: Any = input
    if isinstance(a, CooArray) and dim < a.sparse_dim:
        indices = a.indices.copy()
        indices[dim] = index[indices[dim]]
        return CooArray(indices, a.values, tuple(shape))  # type: ignore[return-value]
    dense = a if isinstance(a, np.ndarray) else formats.to_dense(a)
    result = np.zeros(shape, a.dtype)
    np.add.at(result, (slice(None),) * dim + (index,), dense)
    if isinstance(a, np.ndarray):
        return result
    return formats.convert_dense_to_coo(result, a.sparse_dim)  # type: ignore[return-value]


@implements("index_select")
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Any = None) -> Tensor:
    """Select slices at the given indices, in that order."""
    if input.is_meta:
        refuse("index_select", (input,))
    if not input.dim():
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    axis = canonicalize_dim(dim, input.dim())
    array: Any = index._array
    if array.ndim != 1 or array.dtype != np.int64:
        raise IndexError("index_select() argument index must be 1-D long-tensor.")
    n = input.shape[axis]
    if array.size and not (-n <= array.min() and array.max() < n):
        outlier = array[(array < -n) | (array >= n)][0]
        raise IndexError(f"index_select(): index contains {outlier} that is out of range for "
                         f"tensor of size {list(input.shape)} at dimension {axis}")
    result = np.where(array < 0, array + n, array)
    return _index_select(input, axis, result, out=out)


# ------------------------------------------------------------------------------ new axes, joins


@sparse_operator(node="UnsqueezeBackward0", linear_in="input")
def _unsqueeze(input: Array, dim: int) -> Array:
    a: Any = input
    shape = (*a.shape[:dim], 1, *a.shape[dim:])
    if dim <= a.sparse_dim:
        return CooArray(  # type: ignore[return-value]
            np.insert(a.indices, dim, 0, 0), a.values.copy(), shape, a.coalesced)
    axis = dim - a.sparse_dim + 1
    return CooArray(a.indices.copy(), np.expand_dims(a.values, axis), shape, a.coalesced)  # type: ignore[return-value]


@_unsqueeze.vjp("input")
def _(g: Any, dim: Any) -> Any:
    return g.select(dim, 0)


@implements("unsqueeze")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Insert an axis of length 1 at `dim`."""
    if isinstance(input._array, CompressedArray):
        refuse("unsqueeze", (input,))
    return _unsqueeze(input, canonicalize_dim(dim, input.dim() + 1))


def _refuse(name: str, text: str) -> None:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError(text)

    implements(name)(function)


_refuse("reshape", "reshape is not implemented for sparse tensors")
_refuse("expand", "expand is unsupported for Sparse tensors")


def _join(arrays: Sequence[Any], dim: int) -> Any:
    first = arrays[0]
    shape = list(first.shape)
    shape[dim] = sum(a.shape[dim] for a in arrays)
    if dim >= first.sparse_dim:
        return _join_dense(arrays, dim, tuple(shape))
    start, indices = 0, []
    for a in arrays:
        moved = a.indices.copy()
        moved[dim] += start
        start += a.shape[dim]
        indices.append(moved)
    return CooArray(np.concatenate(indices, 1), np.concatenate([a.values for a in arrays]),
                    tuple(shape))


def _join_dense(arrays: Sequence[Any], dim: int, shape: tuple[int, ...]) -> CooArray:
    """Concatenate along a dense axis, padding each array's values with zeros to full length."""
    axis, start, parts = dim - arrays[0].sparse_dim + 1, 0, []
    for a in arrays:
        wide = list(a.values.shape)
        wide[axis] = shape[dim]
        padded = np.zeros(wide, a.dtype)
        padded[(slice(None),) * axis + (slice(start, start + a.shape[dim]),)] = a.values
        start += a.shape[dim]
        parts.append(padded)
    return CooArray(np.concatenate([a.indices for a in arrays], 1), np.concatenate(parts), shape)


@sparse_operator(node="CatBackward0", linear_in="tensors")
def _cat(tensors: Sequence[Array], dim: int) -> Array:
    return _join(tensors, dim)


@_cat.vjp("tensors")
def _(g: Any, tensors_shape: Any, dim: Any) -> Any:
    result, start = [], 0
    for shape in tensors_shape:
        result.append(g.narrow(dim, start, shape[dim]))
        start += shape[dim]
    return tuple(result)


@implements("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Concatenate sparse tensors along an axis."""
    for i, x in enumerate(tensors):
        if not isinstance(x._array, CooArray):
            if isinstance(x._array, CompressedArray):
                refuse("cat", (x,))
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {i}.")
    axis = canonicalize_dim(dim, tensors[0].dim())
    first = tensors[0]
    for i, x in enumerate(tensors[1:], 1):
        if x.sparse_dim() != first.sparse_dim() or x.dense_dim() != first.dense_dim():
            raise RuntimeError(
                "All tensors must have the same sparse_dim and dense_dim: "
                f"{first.sparse_dim()}, {first.dense_dim()}, but tensor at position {i} has "
                f"{x.sparse_dim()}, {x.dense_dim()}.")
        rest = [(m, n) for k, (m, n) in enumerate(zip(first.shape, x.shape, strict=True))
                if k != axis]
        if any(m != n for m, n in rest):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the "
                f"concatenating dimension), but found shape: {list(x.shape)}")
    return _cat(list(tensors), axis, out=out)


@implements("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Stack sparse tensors along a new axis."""
    return cat([unsqueeze(x, dim) for x in tensors], dim, out=out)


# ------------------------------------------------------------------------------ in place


@implements("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    """Raise NotImplementedError, as in PyTorch."""
    return refuse("equal", (input, other))


@implements("zero_")
def zero_(self: Tensor) -> Tensor:
    """Set all values to zero; a COO tensor drops them."""
    from ...autograd.inplace import bump
    from .like import zeros_like

    a: Any = self._array
    if isinstance(a, CooArray):
        self._array = zeros_like(self)._array
    else:
        a.values[...] = 0
    bump(self)
    return self


@implements("resize_")
def resize_(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """Resize a compressed matrix; new rows are empty, existing rows keep their values."""
    a: Any = self._array
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if not isinstance(a, CompressedArray) or a.blocked or not (a.by_row or a.on_meta):
        refuse("resize_", (self,))
    if a.on_meta:
        self._array = resize_on_meta(a, shape)  # type: ignore[assignment]
        return self
    if len(shape) < 2:
        raise RuntimeError("torch.resize_: Only batched sparse CSR matrices are supported, but "
                           f"got size {list(shape)}")
    if len(shape) != a.ndim or tuple(shape[:-2]) != a.shape[:-2]:
        raise NotImplementedError("torch.resize_: another batch of sparse matrices")
    rows, columns = int(shape[-2]), int(shape[-1])
    if columns < a.shape[-1]:
        raise RuntimeError("torch.resize_: Resizing columns of sparse CSR tensors to a smaller "
                           "value is not supported. The original number of columns is "
                           f"{a.shape[-1]} while the requested new number of columns is {columns}.")
    if rows < a.shape[-2] and a.batch_dim:
        raise NotImplementedError("torch.resize_: fewer rows of a batch of sparse matrices")
    starts = a.compressed[..., : rows + 1]
    new = np.repeat(starts[..., -1:], rows + 1 - starts.shape[-1], -1)
    compressed = np.concatenate([starts, new], -1)
    count = int(compressed[-1]) if not a.batch_dim else a.plain.shape[-1]
    self._array = CompressedArray(  # type: ignore[assignment]
        a.layout, compressed, a.plain[..., :count],
        a.values if a.batch_dim else a.values[:count], (*a.shape[:-2], rows, columns))
    return self


@implements("__setitem__")
def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Raise TypeError: elements of sparse tensors cannot be assigned."""
    raise TypeError("Cannot assign to a sparse tensor")


@implements("sparse_resize_")
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Resize in place, keeping the numbers of sparse and dense axes.

    Stored values keep their order in memory, not their places.
    """
    a: Any = self._array
    if not isinstance(a, CooArray):
        refuse("sparse_resize_", (self,))
    shape = tuple(int(n) for n in size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}")
    if a.nnz:
        _check_growth(a, shape, sparse_dim, dense_dim)
    if a.on_meta:
        self._array = CooArray(  # type: ignore[assignment]
            meta_array((sparse_dim, a.nnz), a.indices.dtype),
            meta_array((a.nnz, *shape[sparse_dim:]), a.dtype), shape, a.coalesced)
        return self
    values = np.zeros((a.nnz, *shape[sparse_dim:]), a.dtype)
    values.reshape(-1)[: a.values.size] = a.values.reshape(-1)  # in the order of memory
    indices = a.indices if a.nnz else np.empty((sparse_dim, 0), np.int64)
    self._array = CooArray(indices, values, shape, a.coalesced)  # type: ignore[assignment]
    return self


def _check_growth(
    a: CooArray, shape: tuple[int, ...], sparse_dim: int, dense_dim: int
) -> None:
    """Raise RuntimeError unless an array with values can be resized: no axis may shrink."""
    old, advice = a.sparse_dim, _RESIZE_ADVICE
    for kind, n, m in (("sparse", old, sparse_dim), ("dense", a.ndim - old, dense_dim)):
        if n != m:
            raise RuntimeError(
                f"changing the number of {kind} dimensions (from {n} to {m}) on a non-empty "
                f"sparse tensor is not supported.\n{advice}")
    for kind, axes in (("sparse", slice(old)), ("dense", slice(old, None))):
        before, after = a.shape[axes], shape[axes]
        if any(m < n for n, m in zip(before, after, strict=True)):
            raise RuntimeError(
                f"shrinking the size of {kind} dimensions (from {list(before)} to {list(after)}) "
                f"on a non-empty sparse tensor is not supported.\n{advice}")


_RESIZE_ADVICE = """You could try the following options:
1. If you need an empty sparse tensor of this size, call `x = torch.sparse_coo_tensor(size)`.
2. If you need to resize this tensor, you have the following options:
    1. For both sparse and dense dimensions, keep the number of them constant and the size of \
them non-shrinking, and then try the same call again.
    2. Or, create a new sparse tensor with the correct indices and values from this sparse \
tensor."""


@implements("resize_as_")
def resize_as_(self: Tensor, other: Tensor, **kwargs: Any) -> Tensor:
    """Resize to the shape of another sparse tensor, which keeps the stored values."""
    a: Any = other._array
    if self.is_meta:
        if not isinstance(a, CompressedArray):
            refuse("resize_as_sparse_", (self,))
        self._array = forget_places(a)
        return self
    return sparse_resize_(self, a.shape, a.sparse_dim, a.ndim - a.sparse_dim)


def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Resize in place and drop all values."""
    from .empty import allocate_coo

    if not self.is_sparse:
        refuse("sparse_resize_and_clear_", (self,))
    array: Any = allocate_coo(tuple(int(n) for n in size), self._array.dtype, sparse_dim)
    self._array = move_to_meta(array) if self.is_meta else array
    return self


implements("sparse_resize_and_clear_")(sparse_resize_and_clear_)
implements("resize_as_sparse_")(resize_as_)
