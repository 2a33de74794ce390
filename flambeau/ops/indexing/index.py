"""Indexing: `x[...]` and `x[...] = v` with integers, slices, None, ellipsis, masks and tensors.

The basic part of an index (integers, slices, None, ellipsis) is applied first and gives a view. The
rest are arrays of positions, which NumPy and PyTorch combine by the same rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.errors.graph_errors import raise_stale
from ...autograd.inplace import bump, check_writable, prepare_write
from ...autograd.mode import MODE
from ...autograd.tape import record, requires
from ...native.foundation.public_names import c_class_name, class_of
from ...native.foundation.user_frames import add_notes, warn
from ...native.runtime.background_jit import KernelPolicy
from ...native.target.eager_costs import (
    MAX_NUMPY_EMBEDDING_ELEMENTS, MAX_NUMPY_POINTWISE_ELEMENTS, MIN_SORTED_ROW_ELEMENTS,
    MIN_STRIDED_COPY_BYTES,
)
from ...tensor.dtypes import FLOAT32, FLOAT64, FLOATS
from ...tensor.meta import MetaArray
from ...tensor.narrow_dtypes import NARROW
from ...tensor.overlap import check_no_internal_overlap, check_put, overlaps_other_window
from ...tensor.promotion import legacy_name
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor, view_of, wrap
from ..core.errors import advise_on_array
from ..core.inplace import assign
from ..core.operator import Array, Positions
from ..core.output_layout import Layout, select_axes
from ..core.registry import opaque
from ..core.scalar_conversion import ORDINARY, convert_scalar
from ..native import pointwise
from ..native.embedding import add_to_rows, take_rows
from ..native.row_copies import allocate_zeros, fill
from ..view.slices import basic_index, select, view_window
from .overlapping_copy import copy_as_read
from .position_checks import LEGAL_POSITIONS, LEGAL_WRITTEN_POSITIONS, check_positions
from .value_shapes import (
    build_values_error, check_axes, check_broadcasts, check_leading_axes, describe_mismatch,
    drop_leading_axes, drop_leading_ones, gather_nothing, is_broadcastable, strip_leading_ones,
)

_INT64, _FULL = np.dtype(np.int64), slice(None)
_BASIC = (slice, type(None), type(Ellipsis))
_SEQUENCES = (Tensor, slice, list, tuple, range, np.ndarray)


def getitem(self: Tensor, index: Any) -> Tensor:
    """Return self[index]."""
    if index.__class__ is int:
        array = self._array
        try:
            y = array[index, ...]
        except IndexError:
            raise _create_range_error(self, index) from None
        except OverflowError:
            raise ValueError("Overflow when unpacking long long") from None
        new = view_of(self, y)
        if self._tracked and MODE.grad and requires(self):
            record(select.operator, new, (self, 0, index))
        return new
    if index.__class__ is slice or index.__class__ is tuple:
        plain = normalize_plain_index(index)
        if plain is not None:
            return view_basic(self, plain) if self._tracked else _view_window(self, plain)
    if index.__class__ is list and is_tuple_of_indices(index):
        return getitem(self, tuple(index))
    positions = _match_positions(index)
    if positions is not None and len(positions) <= self._array.ndim:
        return gather_at(self,
                         check_version(positions, index, self) if self._tracked else positions)
    basic, rest = split_index(self, index)
    result = self if basic is None else view_basic(self, basic)
    if rest is None:
        return result
    return gather_at(result, check_version(rest, index, self) if self._tracked else rest)


class VersionedPositions(tuple[Any, ...]):
    """Positions that a derivative reads, from tensors that must not be written to until then."""

    tensors: list[tuple[Tensor, int]]  # with their versions

    def check(self, node_name: str) -> None:
        """Raise RuntimeError if an index tensor was written to after indexing."""
        for tensor, version in self.tensors:
            counter = tensor._counter
            if counter is not None and counter.value != version:
                raise_stale(node_name, tensor._array, counter, version, tensor)


def check_version(where: tuple, index: Any, *operands: Tensor) -> tuple:
    """Return the positions, with the versions of the index tensors if an operand requires grad."""
    if not MODE.grad or not any(x._tracked and requires(x) for x in operands):
        return where
    items = index if index.__class__ in (tuple, list) else (index,)
    tensors = [(x, get_version(x)) for x in items if isinstance(x, Tensor)]
    if not tensors:
        return where
    positions = VersionedPositions(where)
    positions.tensors = tensors
    return positions


def check_versions(where: tuple, node_name: str) -> None:
    """Raise RuntimeError if positions saved for a derivative have changed since."""
    if where.__class__ is VersionedPositions:
        where.check(node_name)


def is_tuple_of_indices(index: list) -> bool:
    """Return whether a list stands for a tuple of indices, as in NumPy before 1.23.

    It does if any item is an index in itself: a tensor, a sequence, a slice, `...` or None. A list
    of plain numbers, or of 32 items or more, is a single index of positions.
    """
    return len(index) < 32 and any(
        item is None or item is Ellipsis or isinstance(item, _SEQUENCES) for item in index
    )


def normalize_plain_index(index: Any) -> tuple | None:
    """Return an index of only ints, slices and None as a tuple with an ellipsis, else None."""
    items = index if index.__class__ is tuple else (index,)
    rest: tuple = (Ellipsis,)
    for item in items:
        cls = item.__class__
        if cls is int or item is None:
            continue
        if item is Ellipsis and rest:
            rest = ()
        elif cls is not slice or item.step is not None:
            return None
    return items + rest


def _match_positions(index: Any) -> tuple | None:
    """Return an index of only int64 positions, masks and full slices as arrays, else None."""
    result: list[Any] = []
    arrays = 0
    for item in index if index.__class__ is tuple else (index,):
        if item.__class__ is Tensor:
            array = item._array
            if (array.dtype is not _INT64 and array.dtype.kind != "b") or not array.ndim:
                return None
            result.append(array)
            arrays += 1
        elif item.__class__ is slice and item == _FULL:
            result.append(item)
        else:
            return None
    return tuple(result) if arrays else None


def _view_window(self: Tensor, plain: tuple) -> Tensor:
    """Return a basic view of a tensor that autograd does not track."""
    try:
        return view_of(self, view_window(self._array, plain))
    except IndexError as error:
        raise _create_basic_error(self, plain, error) from None


def view_basic(x: Tensor, basic: tuple) -> Tensor:
    try:
        return basic_index(x, basic)
    except IndexError as error:
        raise _create_basic_error(x, basic, error) from None


def _create_range_error(x: Tensor, index: int) -> IndexError:
    if not x._array.ndim:
        return IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    return IndexError(
        f"index {index} is out of bounds for dimension 0 with size {x._array.shape[0]}"
    )


def _create_basic_error(
    x: Tensor, basic: tuple, error: IndexError, rest: tuple | None = None
) -> IndexError:
    """Return PyTorch's error for an index that NumPy refused with `error`."""
    if rest is not None:
        check_positions(x._array[basic] if basic else x._array, rest)
    axis = 0
    for place, item in enumerate(basic):
        if item is None:
            continue
        if item is Ellipsis:
            axis = x._array.ndim - sum(later is not None for later in basic[place + 1:])
            continue
        if not 0 <= axis < x._array.ndim:
            break
        n = x._array.shape[axis]
        if item.__class__ is int and not -n <= item < n:
            return IndexError(f"index {item} is out of bounds for dimension {place} with size {n}")
        axis += 1
    if "too many indices" in str(error):
        return IndexError(f"too many indices for tensor of dimension {x._array.ndim}")
    return error


def split_index(x: Tensor, index: Any) -> tuple[tuple | None, tuple | None]:
    """Return (the basic part, or None if it changes nothing; the remaining arrays, or None)."""
    if index.__class__ is list and is_tuple_of_indices(index):
        index = tuple(index)
    items = index if index.__class__ is tuple else (index,)
    basic: list[Any] = []
    rest: list[Any] = []
    for item in items:
        if item.__class__ is int or item.__class__ in _BASIC:
            _check_slice(item)
            basic.append(item if item.__class__ is not slice else _convert_slice(item))
            if item.__class__ is not int:
                rest.append(item)
            continue
        result = as_index(item)
        if isinstance(result, (int, slice)):
            basic.append(result)
            if isinstance(result, slice):
                rest.append(result)
            continue
        basic.extend([slice(None)] * (result.ndim if result.dtype == np.bool_ else 1))
        if result.dtype == np.bool_ and result.ndim == 0:
            basic.append(None)  # a 0-dim mask is a new axis, kept or emptied
            result = result.reshape(1)
        rest.append(result)
    selection = tuple(basic) if Ellipsis in basic else (*basic, Ellipsis)
    if not any(isinstance(item, np.ndarray) for item in rest):
        return selection, None
    aligned = _align_with_basic(x, basic, rest)
    return (None if selects_whole(selection, None) else selection), aligned


def _check_slice(item: Any) -> None:
    if item.__class__ is slice and item.step.__class__ is int and item.step <= 0:
        raise ValueError("step must be greater than zero")


def _convert_slice(item: slice) -> slice:
    parts = (item.start, item.stop, item.step)
    if all(p is None or p.__class__ is int for p in parts):
        return item
    return slice(*(None if p is None else int(p) for p in parts))


def _align_with_basic(x: Tensor, basic: list, rest: list) -> tuple:
    """Return the arrays, with a full slice for each axis between them that the basic part keeps."""
    used = sum(1 for b in basic if b is not None and b is not Ellipsis)
    implicit = max(x._array.ndim - used, 0)  # the axes that the ellipsis stands for
    result: list[Any] = []
    for item in rest:
        if item is Ellipsis:
            result.extend([slice(None)] * implicit)
        elif isinstance(item, np.ndarray):
            result.append(item)
        else:
            result.append(slice(None))
    return tuple(result)


_INVALID_INDEX_DTYPE = "tensors used as indices must be long, int, byte or bool tensors"


def as_index(item: Any) -> Any:
    """Convert an index other than an int, slice, None or ellipsis to an array or an int."""
    if isinstance(item, Tensor):
        return _check_index_array(_get_tensor_indices(item))
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(bool(item))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, np.ndarray):
        return _check_index_array(np.asarray(item))
    if isinstance(item, (list, tuple, range)):
        return _check_index_array(_convert_sequence(item))
    if hasattr(item, "__index__"):
        return item.__index__()
    if isinstance(item, (str, bytes)):  # PyTorch makes a tensor of a sequence
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
        f"valid indices (got {type(item).__name__})"
    )


def _get_tensor_indices(item: Tensor) -> np.ndarray:
    array = item._array
    if array.ndim and array.dtype.itemsize < 4 and array.dtype.kind == "i":
        raise IndexError(_INVALID_INDEX_DTYPE)
    return array


def _convert_sequence(item: Any) -> np.ndarray:
    array = np.asarray([v.tolist() if isinstance(v, Tensor) else v for v in item])
    if array.dtype.kind in "US":
        kind = "str" if array.dtype.kind == "U" else "bytes"
        raise TypeError(f"new(): invalid data type '{kind}'")
    return array if array.size else array.astype(np.int64)


def _check_index_array(array: np.ndarray) -> Any:
    """Return an array as an index: bytes as a mask, a number as an int."""
    if array.dtype == np.uint8:
        warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
            "instead.",
            UserWarning,
        )
        return array.astype(np.bool_)
    if array.dtype != np.bool_ and array.dtype.kind not in "iu":
        raise IndexError(_INVALID_INDEX_DTYPE)
    if array.ndim == 0 and array.dtype.kind in "iu":
        return int(array)
    return array


def _list_positions(rest: tuple) -> list[np.ndarray]:
    """Return the arrays of positions of an index; a mask counts as the positions it selects."""
    arrays = [item for item in rest if item.__class__ is np.ndarray]
    return [p for a in arrays for p in (np.nonzero(a) if a.dtype == np.bool_ else (a,))]


@opaque(linear_in="input", layout=Layout.FREE,
        name="index", node="IndexBackward0", expose=(), value_dependent_shape="masks",
        values=LEGAL_POSITIONS,
        ref=lambda x, where: x[where],
        samples=lambda rng: iter([
            ((rng.normal(size=(4, 3)), (np.array([0, 2, 2]),)), {}),
            ((rng.normal(size=(4, 3)), (slice(None), np.array([2, 0]))), {}),
        ]))
def gather_at(input: Array, where: Positions) -> Array:
    """Return the elements at arrays of positions."""
    try:
        return _gather(input, where)
    except IndexError as error:
        check_positions(input, where)
        shapes = ", ".join(str(list(item.shape)) for item in _list_positions(where))
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from error


def _gather(input: Array, positions: Positions) -> Array:
    if input.__class__ is MetaArray:
        return gather_nothing(input, positions)
    arrays = [i for i, w in enumerate(positions) if w.__class__ is np.ndarray]
    if len(arrays) == 1 and positions[arrays[0]].dtype != np.bool_ and input.size:
        if not arrays[0] and input.size > MAX_NUMPY_EMBEDDING_ELEMENTS \
                and (y := take_rows(input, positions[0])) is not None:
            return y
        return select_axes(input.take(positions[arrays[0]], arrays[0]), input, positions)
    return select_axes(np.ascontiguousarray(input[positions]), input, positions)


@gather_at.vjp
def _(g: Tensor, input_shape: tuple[int, ...], where: Positions) -> Tensor:
    check_versions(where, "IndexBackward0")
    return scatter_at(g, input_shape, where)


@opaque(linear_in="g", layout=Layout.FREE, name="index_adjoint", expose=(), ref=None, samples=None)
def scatter_at(g: Array, shape: Any, where: Positions) -> Array:
    """Return zeros of a shape, with `g` summed into the positions."""
    result = allocate_zeros(shape, g.dtype)
    if any(isinstance(w, np.ndarray) and w.dtype != np.bool_ for w in where):
        add_rows(result, where, g)
    else:
        result[where] = g  # a mask selects each position once
    return result


def add_rows(target: np.ndarray, where: tuple, g: np.ndarray) -> None:
    """Compute target[where] += g, accumulating at repeated positions."""
    first = where[0]
    if len(where) != 1 or first.dtype == np.bool_ or target.ndim != 2 \
            or g.size < MIN_SORTED_ROW_ELEMENTS:
        np.add.at(target, where, g)
        return
    rows = first.reshape(-1)
    if g.size > MAX_NUMPY_EMBEDDING_ELEMENTS \
            and add_to_rows(target, rows, g.reshape(rows.size, -1)):
        return
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    target[rows[starts]] += np.add.reduceat(g.reshape(rows.size, -1)[order], starts, 0)


@scatter_at.vjp
def _(g: Tensor, where: Positions) -> Tensor:
    return gather_at(g, where)


# ----------------------------------------------------------------------------------- writing


@opaque(layout=Layout.FREE,
        name="_overwrite", node="CopyBackwards", expose=(), ref=None, samples=None)
def copy_values(input: Array, src: Array) -> Array:
    """Return `src` in the shape and dtype of `input`: the value after a copy in place."""
    return np.broadcast_to(src, input.shape).astype(input.dtype)


@copy_values.vjp("input")
def _(g: Tensor) -> Tensor:
    return g.new_zeros(g.shape)  # zero where g is nan, too


@copy_values.vjp("src")
def _(g: Tensor, src_shape: tuple[int, ...], src_dtype: Any) -> Tensor:
    if g.dtype.is_complex and not src_dtype.is_complex:
        g = g.real
    return g.sum_to_size(src_shape).to(src_dtype)


def overwrite(self: Tensor, src: Tensor, name: str) -> Tensor:
    """Write `src` over all of `self`, recorded for autograd."""
    check_writable(self, name)
    src = drop_leading_axes(src, self)
    if overlaps_other_window(self._array, src._array):
        src = copy_as_read(self, src)
    return assign(self, copy_values(prepare_write(self, False), src), name)


@opaque(linear_in="input + values", layout=Layout.FREE,
        name="_index_put", node="IndexPutBackward0", expose=(), ref=None, samples=None,
        values=LEGAL_WRITTEN_POSITIONS)
def put_at_positions(input: Array, values: Array, where: Positions, accumulate: bool) -> Array:
    """Return a copy of `input` with `values` written or added at positions."""
    result = input.copy()
    check_axes(input, values, where)
    try:
        if accumulate:
            np.add.at(result, where, values.astype(result.dtype))
        else:
            result[where] = values
    except IndexError:
        check_positions(input, where)
        raise
    except ValueError:
        raise build_values_error(input, values, where) from None
    return result


@put_at_positions.vjp("input")
def _(g: Tensor, where: Positions, accumulate: bool) -> Tensor:
    check_versions(where, "IndexPutBackward0")
    if accumulate:
        return g
    return put_at_positions(g, wrap(np.zeros((), g._array.dtype)), where, False)


@put_at_positions.vjp("values")
def _(g: Tensor, values_shape: tuple[int, ...], values_dtype: Any, where: Positions) -> Tensor:
    check_versions(where, "IndexPutBackward0")
    return gather_at(g, where).sum_to_size(values_shape).to(values_dtype)


def put_at(self: Tensor, values: Tensor, where: tuple, accumulate: bool, name: str) -> Tensor:
    """Write or add `values` at positions of `self`, in place."""
    recorded = MODE.grad and ((self._tracked and requires(self))
                              or (values._tracked and requires(values)))
    if recorded:
        check_writable(self, name)
        old = prepare_write(self, False)
        return assign(self, put_at_positions(old, values, where, accumulate), name)
    if self._array.__class__ is not MetaArray:
        source = values._array
        check_put(self._array, source, where)
        check_axes(self._array, source, where)
        if accumulate:
            np.add.at(self._array, where, source.astype(self._array.dtype))
        else:
            self._array[where] = source
    bump(self)
    return self


def _select_unless(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, x)


def _fill_masked(target: Array, rest: tuple | None, value: Array) -> bool:
    """Write a number where a mask of a large array is true; return whether a kernel did it."""
    if rest is None or len(rest) != 1 or target.size <= MAX_NUMPY_POINTWISE_ELEMENTS \
            or value.ndim:
        return False
    mask = rest[0]
    if mask.__class__ is not np.ndarray or mask.dtype != np.bool_ or mask.shape != target.shape \
            or value.dtype != target.dtype or target.dtype.kind not in "fi" \
            or target.itemsize < 4 or not KernelPolicy.allowed:
        return False
    is_dense = target.flags.c_contiguous and target.flags.writeable and mask.flags.c_contiguous
    return is_dense and pointwise.serve(
        _select_unless, (target, mask, value), target=target) is not None


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Assign self[index] = value."""
    if not (self._tracked and MODE.grad) and _put_directly(self._array, index, value):
        bump(self)
        return
    source = as_value(self, value)
    basic, rest = split_index(self, index)
    if rest is not None and value is source:
        check_dtypes(self, source, rest, basic)
    try:
        if not (MODE.grad and (self._tracked or source._tracked)) \
                and not overlaps_other_window(self._array, source._array):
            _put_unrecorded(self, basic, rest, source._array)
            return
        target = self if basic is None or selects_whole(basic, rest) else view_basic(self, basic)
        if rest is not None:
            _write_back(target, source, check_version(rest, index, self, source))
        elif not is_broadcastable(source, target):
            raise describe_mismatch(self, basic, rest, source)
        elif requires(self) or (source._tracked and requires(source)):
            overwrite(target, source, "setitem")
        else:  # a broadcast value may alias the target, as in PyTorch
            same = source._array.shape == target._array.shape
            target.copy_(source if same else drop_leading_axes(source, target).clone())
    except IndexError as error:
        raise _create_basic_error(self, basic or (), error, rest) from None
    except (ValueError, TypeError):  # TypeError: more than one axis for what a mask chooses
        raise describe_mismatch(self, basic, rest, source) from None


def _put_unrecorded(
    self: Tensor, basic: tuple | None, rest: tuple | None, values: np.ndarray
) -> None:
    """Write values at an index of `self` that autograd does not record."""
    target = self._array if basic is None else self._array[basic]
    check_leading_axes(target, values, rest)
    if self._array.__class__ is MetaArray:
        return
    if rest is not None:
        values = strip_leading_ones(values)  # NumPy wants one axis for what a mask chooses
    if rest is None:
        check_no_internal_overlap(target)
    if rest is None and target.nbytes >= MIN_STRIDED_COPY_BYTES \
            and values.dtype == target.dtype and values.ndim <= target.ndim:
        fill(target, values)
    elif _fill_masked(target, rest, values):
        pass
    elif values.dtype is target.dtype:  # nothing is converted
        target[Ellipsis if rest is None else rest] = values
    else:
        with np.errstate(all="ignore"):
            target[Ellipsis if rest is None else rest] = values
    bump(self)


def _write_back(target: Tensor, source: Tensor, positions: tuple) -> None:
    put_at(target, cast_like(drop_leading_ones(source), target), positions, False, "index_put_")


def check_dtypes(
    target: Tensor, source: Tensor, positions: tuple, basic: tuple | None = None
) -> None:
    """Raise RuntimeError for another dtype, except for one element written through masks."""
    only_masks = all(item.__class__ is slice or item.dtype == np.bool_ for item in positions)
    if target._array.dtype != source._array.dtype and not (only_masks and source._array.size == 1):
        check_broadcasts(target._array if basic is None else target._array[basic], source,
                         positions)
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{legacy_name(target.dtype)} for the destination and {legacy_name(source.dtype)} for "
            "the source."
        )


def _put_directly(array: np.ndarray, index: Any, value: Any) -> bool:
    """Try array[index] = value for a small array, if there is nothing to record or convert.

    Return False for everything else, errors included: `setitem` then does it step by step.
    """
    dtype = array.dtype
    if array.size > MAX_NUMPY_POINTWISE_ELEMENTS:
        return False
    if value.__class__ is float or value.__class__ is int:
        if dtype not in FLOATS or not -ORDINARY < value < ORDINARY:
            return False
    elif isinstance(value, Tensor) and not (value._tracked and MODE.grad):
        value = value._array
        if value.dtype is not dtype or value.ndim > array.ndim \
                or overlaps_other_window(array, value):
            return False
    else:
        return False
    if index.__class__ is not int:
        index = normalize_plain_index(index) or _match_positions(index)
    if index is None or array.__class__ is not np.ndarray \
            or (array.base is not None and 0 in array.strides):  # an expanded view
        return False
    try:
        array[index] = value
    except (IndexError, ValueError):
        return False
    except TypeError:
        if np.ndim(value) < 2:
            raise  # a slice of floats
        return False  # more than one axis for what a mask chooses
    return True


def selects_whole(basic: tuple, rest: Any) -> bool:
    return rest is None and all(
        b is Ellipsis or (b.__class__ is slice and b == slice(None)) for b in basic
    )


def cast_like(source: Tensor, target: Tensor) -> Tensor:
    return source if source._array.dtype == target._array.dtype else source.to(target.dtype)


def as_value(self: Tensor, value: Any) -> Tensor:
    """Convert an assigned value to a tensor; numbers get the dtype of `self`."""
    cls = value.__class__
    if (cls is float or cls is int) and -ORDINARY < value < ORDINARY:
        dtype = self._array.dtype
        if dtype is FLOAT32 or dtype is FLOAT64 or (cls is int and dtype is _INT64):
            return wrap(np.array(value, dtype))
    if isinstance(value, Tensor):
        return value.to(self.dtype) if self._array.dtype in NARROW else value
    if isinstance(value, (bool, int, float, complex, np.integer)):
        return wrap(convert_scalar(value, self._array.dtype))
    raise add_notes(TypeError(f"can't assign a {c_class_name(value)} to a {self.type()}"),
                    advise_on_array(value))


def _delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


_methods: Any = Tensor
_methods.__getitem__, _methods.__setitem__ = getitem, setitem
_methods.__delitem__ = _delitem


def _iterate(self: Tensor) -> Any:
    if not self._array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, bool, int, float, complex)):
        return bool((self == element).any().item())
    raise RuntimeError(
        "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
        f"{class_of(element)}."
    )


_methods.__iter__, _methods.__contains__ = _iterate, _contains
