"""Distinct values of tensors: unique, unique_consecutive."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.errors.missing_derivatives import record_without_derivative
from ...native.target.eager_costs import MAX_COUNTED_RANGE_RATIO
from ...tensor.meta import refuse_unknown_values
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import refuse_complex
from ...tensor.tensor import Tensor, wrap
from ..core.axes import canonicalize_dim
from ..core.errors import build_tensor_error
from ..core.operator import Array
from ..core.registry import shape_depends_on_values
from ..creation.creation import public
from . import sort_kernels
from .sorted_rows import find_distinct_rows


def _count(x: Array, inverse: bool) -> tuple[Array, Array | None, Array] | None:
    """Return (values, index of each element's value, counts) by counting, or None unless the
    elements are integers in a small range."""
    if x.dtype.kind not in "iub" or not x.size:
        return None
    low, high = int(x.min()), int(x.max())
    if high - low >= MAX_COUNTED_RANGE_RATIO * x.size or high >= 1 << 63:
        return None
    offsets = x.astype(np.int64)
    offsets -= low
    counts = np.bincount(offsets, minlength=high - low + 1)
    present = np.flatnonzero(counts)
    value_indices = None
    if inverse:
        ranks = np.empty(counts.size, np.int64)
        ranks[present] = np.arange(present.size)
        value_indices = ranks.take(offsets)
    return (present + low).astype(x.dtype), value_indices, counts[present]


def _sort(x: Array, inverse: bool) -> tuple[Array, Array | None, Array]:
    """The same for any dtype, by sorting. Every NaN is a distinct value."""
    order = None
    if inverse:
        order = sort_kernels.sort_numbers(sort_kernels.map_to_keys(x[None]), False)[0]
        ordered = x.take(order)
    else:
        ordered = np.sort(x)
    differs = np.ones(x.size, bool)  # from the element before it
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    starts = np.flatnonzero(differs)
    value_indices = None
    if order is not None:
        value_indices = np.empty(x.size, np.int64)
        value_indices[order] = np.cumsum(differs) - 1
    return ordered[starts], value_indices, np.diff(np.append(starts, x.size))


def _refuse_empty_slices(array: Array, axis: int) -> None:
    if array.shape.count(0) > (array.shape[axis] == 0):
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )


def _read_array(name: str, input: Any) -> Array:
    """Return a tensor's array; TypeError for anything else. A wrapper would check the flags as
    arguments with positions, which PyTorch passes on by name."""
    if not isinstance(input, Tensor):
        raise build_tensor_error(name, "input", 0, input)
    return input._array


def _check_flags(name: str, **flags: Any) -> None:
    """TypeError unless all are booleans: an axis must be named."""
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}(): argument '{flag}' must be bool, not {type(value).__name__}")


@shape_depends_on_values
@public(spaces=("torch", "Tensor"))
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the sorted unique values of a tensor, or unique slices along an axis.

    `return_inverse` adds the index of each element among them, `return_counts` the number of its
    occurrences.

    >>> torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
    (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    array = _read_array("_unique2", input)
    kernel = "unique" if dim is None else "unique_dim"
    refuse_eight_bit(array, kernel)
    refuse_complex(array, kernel)
    _check_flags("_unique2", sorted=sorted, return_inverse=return_inverse,
                 return_counts=return_counts)
    refuse_unknown_values(input, f"{'_unique2' if dim is None else 'unique_dim'}.default")
    if dim is None and array.dtype.kind in "iubf":
        flat = array.reshape(-1)
        values, inverse, counts = _count(flat, return_inverse) or _sort(flat, return_inverse)
        shape = array.shape
    else:
        axis = None if dim is None else canonicalize_dim(dim, array.ndim)
        if axis is not None and array.ndim:
            _refuse_empty_slices(array, axis)
        if axis is not None and array.dtype.kind == "f" and np.isnan(array).any():
            slices = np.moveaxis(array, axis, 0)
            chosen, inverse, counts = find_distinct_rows(slices.reshape(len(slices), -1))
            values = np.moveaxis(slices.take(chosen, 0), 0, axis)
        else:
            values, inverse, counts = np.unique(
                array, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
            )
        shape = array.shape if axis is None else (array.shape[axis],)
    name, node = ("_unique2", "Unique2Backward0") if dim is None \
        else ("unique_dim", "UniqueDimBackward0")
    return _return_results(record_without_derivative(name, wrap(values), (input,), node),
                           np.asarray(inverse).reshape(shape) if return_inverse else None,
                           counts if return_counts else None)


def _return_results(values: Tensor, inverse: Array | None, counts: Array | None) -> Any:
    """Return the values, in a tuple with the requested indices and counts."""
    requested = [wrap(array.astype(np.int64, copy=False)) for array in (inverse, counts)
                 if array is not None]
    return (values, *requested) if requested else values


@shape_depends_on_values
@public(spaces=("torch", "Tensor"))
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Collapse each run of equal values, or equal slices along an axis, to its first.

    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 1]))
    tensor([1, 2, 1])
    """
    array = _read_array("unique_consecutive", input)
    kernel = "unique" if dim is None else "unique_dim"
    refuse_eight_bit(array, kernel)
    refuse_complex(array, kernel)
    _check_flags("unique_consecutive", return_inverse=return_inverse, return_counts=return_counts)
    refuse_unknown_values(input, "unique_consecutive.default")
    array = array if dim is not None else array.reshape(-1)
    axis = 0 if dim is None else canonicalize_dim(dim, array.ndim)
    slices = np.moveaxis(array, axis, 0)
    rows = slices.reshape(array.shape[axis], array.size // max(array.shape[axis], 1))
    differs = np.ones(len(rows), bool)  # from the row before it
    differs[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(differs)
    distinct = wrap(np.moveaxis(slices.take(starts, 0), 0, axis))
    values = record_without_derivative(
        "unique_consecutive", distinct, (input,), "UniqueConsecutiveBackward0")
    inverse = np.cumsum(differs) - 1
    return _return_results(
        values,
        inverse.reshape(input._array.shape if dim is None else (-1,)) if return_inverse else None,
        np.diff(np.append(starts, len(rows))) if return_counts else None)
