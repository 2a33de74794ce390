"""Sums, norms and softmax over axes of sparse tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.dtypes import as_dtype
from ...tensor.sparse import CompressedArray, CooArray, SparseTensor, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.axes import canonicalize_dim
from ..core.operator import Array
from . import formats
from .conversion import coalesce, values
from .dispatch import implements, refuse, sparse_operator
from .masked_arrays import read_values
from .masking import mask_by_pattern


def _normalize_axes(dim: Any, rank: int) -> tuple[int, ...]:
    """Return the axes as sorted nonnegative ints. Raise RuntimeError for duplicates."""
    axes = [canonicalize_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    for axis in axes:
        if axes.count(axis) > 1:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    return tuple(sorted(axes))


def _accumulate(array: np.ndarray) -> np.ndarray:
    """Cast values to PyTorch's accumulation dtype: int64 for integers and bools."""
    return array.astype(np.int64) if array.dtype.kind in "biu" else array


def _sum_values(array: np.ndarray, axes: tuple[int, ...], keepdim: bool = False) -> np.ndarray:
    if not axes:
        return array
    result: np.ndarray = wrap(array).sum(axes, keepdim=keepdim)._array
    return result


# ------------------------------------------------------------------------------ sums


@sparse_operator(node="SumBackward0", linear_in="input")
def _sum_all(input: Array) -> Array:
    return np.asarray(wrap(input.values).sum()._array)  # type: ignore[attr-defined]


@_sum_all.vjp("input")
def _(g: Any, input_shape: Any) -> Any:
    return g.expand(input_shape)


def _sum_axes(a: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """Sum over axes. Return a sparse array, or a dense one if no sparse axis remains."""
    if isinstance(a, CompressedArray):
        raise TypeError("compressed layouts have their own rule")
    sparse = a.sparse_dim
    over_sparse = [axis for axis in axes if axis < sparse]
    over_dense = tuple(axis - sparse + 1 for axis in axes if axis >= sparse)
    remaining = [axis for axis in range(sparse) if axis not in over_sparse]
    new_values = _sum_values(_accumulate(a.values), over_dense, keepdim)
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape)) if keepdim else \
        tuple(n for i, n in enumerate(a.shape) if i not in axes)
    if not remaining:
        total = _sum_values(new_values, (0,))
        return total.reshape(shape)
    indices = a.indices.copy() if keepdim else a.indices[remaining]
    if keepdim:
        indices[over_sparse] = 0
    result = CooArray(indices, new_values, shape, a.coalesced and not over_sparse)
    return formats.coalesce(result) if over_sparse else result


@sparse_operator(node="SparseSumBackward0", linear_in="input")
def sum_over(input: Array, axes: Any, keepdim: bool) -> Array:
    return _sum_axes(input, axes, keepdim)


@sum_over.vjp("input")
def _(g: Any, input: Any, axes: Any, keepdim: Any) -> Any:
    return _spread(g, input, axes, keepdim)


@sparse_operator(node="SparseSumBackwardBackward0")
def _spread(g: Array, input: Array, axes: Any, keepdim: bool) -> Array:
    """Broadcast the gradient of a sum to the coordinates of its operand."""
    a: Any = input
    dense = g if isinstance(g, np.ndarray) else None
    remaining = [axis for axis in range(a.sparse_dim) if axis not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    if dense is None and not keepdim:
        g = CooArray(
            g.indices,
            g.values.reshape(
                -1, *shape[a.sparse_dim :]
            ),
            tuple(a.shape[k] for k in remaining) + shape[a.sparse_dim :],
            g.coalesced,
        )
    elif not keepdim:
        g = g.reshape(tuple(a.shape[k] for k in remaining) + shape[a.sparse_dim :])
    source_rows = a.indices[remaining]
    if keepdim:
        source_rows = a.indices.copy()
        source_rows[[k for k in range(a.sparse_dim) if k in axes]] = 0
    result = read_values(g, source_rows)
    result = np.broadcast_to(result, a.values.shape).astype(a.dtype)
    return CooArray(np.ascontiguousarray(a.indices), np.ascontiguousarray(result), a.shape,
                    a.coalesced)  # type: ignore[return-value]


@_spread.vjp("g")
def _(g: Any, axes: Any, keepdim: Any) -> Any:
    return sum_over(g, axes, keepdim)


@implements("sum")
def sum_(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
         out: Any = None) -> Tensor:
    """Sum over all elements, or over axes."""
    x = input if dtype is None else input.to(as_dtype(dtype))
    reduces_all = dim is None or (not isinstance(dim, int) and len(dim) == 0)
    if isinstance(x._array, CompressedArray):
        return sum_compressed(x, None if reduces_all else dim, keepdim)
    if reduces_all:
        return _sum_all(x)
    result: Tensor = sum_over(coalesce(x), _normalize_axes(dim, x.dim()), keepdim)
    return result


def sum_compressed(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim is None:
        return _sum_all(x)
    if x.is_meta:
        refuse("_sparse_csr_sum.dim_dtype", (x,))
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    a: Any = x._array
    axes = _normalize_axes(dim, x.dim())
    if a.blocked or a.batch_dim:
        refuse("sum.dim_IntList", (x,))
    result: Any = _sum_axes(formats.to_coo(a), axes, True)
    if isinstance(result, np.ndarray):  # over both axes
        result = formats.convert_dense_to_coo(result, 2)
    return wrap_sparse(formats.compress(result, a.layout, None, a.plain.dtype))


def sparse_sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """`torch.sparse.sum`, whose gradient keeps the sparsity pattern of `input`."""
    if not isinstance(input, SparseTensor):
        return input.sum() if dim is None else input.sum(dim)
    x = input if dtype is None else input.to(as_dtype(dtype))
    if dim is None:
        if isinstance(x._array, CompressedArray):
            return _sum_all(x)
        return values(coalesce(x)).sum()
    if isinstance(x._array, CompressedArray):
        return sum_compressed(x, dim, True)
    if not isinstance(dim, int) and not len(dim):
        raise RuntimeError(
            "Trying to sum over an empty list of dimensions, which is not supported")
    return sum_over(coalesce(x), _normalize_axes(dim, x.dim()), False)


@implements("any")
def any_(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Test whether any stored value is nonzero."""
    if dim is not None:
        refuse("any.out", (input,))
    if input.is_meta:
        refuse("any", (input,))
    return coalesce(input)._values().any() if input.is_sparse else input.values().any()


@implements("norm")
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None,
         out: Any = None) -> Tensor:
    """Norm of all elements."""
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if input.is_meta:
        refuse("norm.out", (input,))
    reduces_all = dim is None or (not isinstance(dim, int) and not len(dim))
    if not reduces_all and _normalize_axes(dim, input.dim()) != tuple(range(input.dim())):
        raise RuntimeError("norm_sparse currently only supports full reductions, so 'dim' must "
                           "either be empty or contain all dimensions of the input")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    order = 2.0 if p == "fro" or p is None else p
    stored = values(coalesce(input)) if input.is_sparse else values(input)
    return stored.reshape(-1).norm(order)


# ------------------------------------------------------------------------------ softmax


def _number_rows(a: CooArray, dim: int) -> tuple[np.ndarray, int]:
    """Return the row along `dim` of each coordinate, and the number of distinct rows."""
    others = [k for k in range(a.sparse_dim) if k != dim]
    shape = tuple(a.shape[k] for k in others)
    linear = CooArray(a.indices[others], a.values, shape).linear_indices()
    result, row = np.unique(linear, return_inverse=True)
    return row.reshape(-1), result.size


def _sum_by_row(values: np.ndarray, row: np.ndarray, count: int) -> np.ndarray:
    result = np.zeros((count, *values.shape[1:]), values.dtype)
    np.add.at(result, row, values)
    return result


def _normalize(a: Any, dim: int, log: bool) -> Any:
    a = formats.coalesce(a)
    widened = a.values.astype(np.float32) if a.dtype.itemsize == 2 else a.values
    if dim >= a.sparse_dim:
        name = "log_softmax" if log else "softmax"
        result = getattr(wrap(a.values), name)(dim - a.sparse_dim + 1)._array
        return a.like(result)
    row, count = _number_rows(a, dim)
    largest = np.full((count, *widened.shape[1:]), -math.inf, widened.dtype)
    np.maximum.at(largest, row, widened)
    shifted = widened - largest[row]
    exponentials = np.exp(shifted)
    total = _sum_by_row(exponentials, row, count)[row]
    result = shifted - np.log(total) if log else exponentials / total
    return a.like(result.astype(a.dtype))


def _declare(name: str, log: bool) -> Callable:
    node = "SparseLogSoftmaxBackward0" if log else "SparseSoftmaxBackward0"

    def body(input: Array, dim: Any) -> Array:
        return _normalize(input, dim, log)

    body.__name__ = name
    operator = sparse_operator(node=node)(body)

    @operator.vjp("input")
    def _(g: Any, y: Any, dim: Any) -> Any:
        return _differentiate_softmax(g, y, dim, log)

    @operator.jvp
    def _(input_t: Any, y: Any, dim: Any) -> Any:
        if not log:
            return _differentiate_softmax(input_t, y, dim, False)  # its Jacobian is symmetric
        return _log_softmax_tangent(input_t, y, dim)

    return operator


def _log_softmax_tangent(t: Tensor, y: Tensor, dim: int) -> Tensor:
    """Subtract the tangent's probability-weighted mean, at the result's coordinates."""
    a: Any = y._array
    tangent: Any = mask_by_pattern(t, a)._array
    p = np.exp(a.values)
    if dim >= a.sparse_dim:
        axis = dim - a.sparse_dim + 1
        return wrap_sparse(tangent.like(tangent.values
                                        - (tangent.values * p).sum(axis, keepdims=True)))
    row, count = _number_rows(a, dim)
    return wrap_sparse(tangent.like(tangent.values
                                    - _sum_by_row(tangent.values * p, row, count)[row]))


def _differentiate_softmax(g: Tensor, y: Tensor, dim: int, log: bool) -> Tensor:
    """Compute the gradient from cotangent and result, at the result's coordinates."""
    a: Any = y._array
    g = mask_by_pattern(g, a)
    at: Any = g._array
    if dim >= a.sparse_dim:
        axis = dim - a.sparse_dim + 1
        gv, yv = wrap(at.values), wrap(a.values)
        if log:
            result = gv - yv.exp() * gv.sum(axis, keepdim=True)
        else:
            result = yv * (gv - (gv * yv).sum(axis, keepdim=True))
        return wrap_sparse(at.like(result._array))
    row, count = _number_rows(a, dim)
    cotangent: np.ndarray = at.values
    if log:
        total = _sum_by_row(cotangent, row, count)[row]
        return wrap_sparse(at.like(cotangent - np.exp(a.values) * total))
    total = _sum_by_row(cotangent * a.values, row, count)[row]
    return wrap_sparse(at.like(a.values * (cotangent - total)))


_softmax, _log_softmax = _declare("softmax", False), _declare("log_softmax", True)


def _check(name: str, operator: Any, input: Tensor, dim: int, dtype: Any) -> Tensor:
    if not isinstance(input, SparseTensor):
        return getattr(input, name)(dim, dtype=dtype)
    x = input if dtype is None else input.to(as_dtype(dtype))
    if x._array.dtype.kind not in "fV":
        raise NotImplementedError(
            f'"{name}" not implemented for \'{_TYPES.get(x.dtype.name, x.dtype.name)}\'')
    return operator(x, canonicalize_dim(dim, x.dim()))


_TYPES = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
          "bool": "Bool"}


@implements("_sparse_softmax")
def softmax(input: Tensor, dim: int, dtype: Any = None, *, _stacklevel: int = 3,
            out: Any = None) -> Tensor:
    """Softmax over the stored values along `dim`, exp(x) / sum(exp(x))."""
    return _check("softmax", _softmax, input, dim, dtype)


@implements("_sparse_log_softmax")
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, _stacklevel: int = 3,
                out: Any = None) -> Tensor:
    """Logarithm of `softmax`."""
    return _check("log_softmax", _log_softmax, input, dim, dtype)
