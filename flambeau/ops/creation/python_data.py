"""Convert Python data to arrays: numbers, and nested sequences of numbers, arrays and tensors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...tensor import dtypes as types
from ...tensor.dtypes import dtype as Dtype
from ...tensor.dtypes import from_numpy_dtype
from ...tensor.narrow_dtypes import ROUNDED, narrow, widen
from ...tensor.promotion import promote_types
from ...tensor.tensor import Tensor
from ..core.scalar_conversion import fits
from .nested_data import collect_classes, measure_first, read_numbers

_PLAIN = {int, float, bool}
_LARGEST = float(np.finfo(np.float32).max)


class _Leaves(list):
    """The numbers of nested data in order, and the classes and dtypes that decide their dtype."""

    def __init__(self) -> None:
        self.classes: set[type] = set()  # of Python and NumPy numbers
        self.dtypes: set[Dtype] = set()  # of arrays and tensors


class _Irregular(Exception):
    """Nested data is not one block of numbers."""


def infer_array(data: Any, dtype: Dtype | None) -> np.ndarray:
    """Return `data` as an array of the given dtype, or one inferred from its numbers."""
    if data.__class__ is float and -_LARGEST < data < _LARGEST:  # a shortcut, of the same result
        kind = (types.get_default_dtype() if dtype is None else dtype).numpy
        if kind in types.FLOATS:
            return np.array(data, kind)
    flat: Any = _Leaves()
    try:
        shape = _measure(data, flat)
    except RecursionError:
        raise _explain_depth(data) from None
    except _Irregular:
        shape, dtype, flat = _read_irregular(data, dtype)
    kinds = set(map(type, flat))
    plain = bool(kinds) and kinds <= _PLAIN and not flat.dtypes
    if not plain and not all(_is_number(v, dtype) for v in flat):
        shape, dtype, flat = _read_irregular(data, dtype)
        kinds = set(map(type, flat))
    if dtype is None:
        dtype = _infer_dtype(kinds) if plain else _infer(flat)
    return _fill(flat, shape, dtype, plain, kinds)


def _fill(
    flat: Any, shape: tuple[int, ...], dtype: Dtype, plain: bool, kinds: set[type]
) -> np.ndarray:
    """Return numbers as an array; `plain`: all are Python's own, of the classes `kinds`."""
    kind = dtype.numpy
    if dtype.category == types.INTEGER:
        flat = flat if float not in kinds and plain else _truncate(flat, kind)
        try:
            return np.array(flat, kind).reshape(shape)
        except OverflowError:
            return _wrap_integers(flat, dtype).reshape(shape)
    with np.errstate(all="ignore"):
        if kind in ROUNDED:
            whole = np.array(flat, np.complex128 if dtype.is_complex else np.float32)
            return narrow(whole, kind).reshape(shape)
        if dtype.category == types.BOOL:
            flat = [bool(v) for v in flat]
        computed = np.float64 if dtype.category == types.FLOATING else kind
        return np.array(flat, computed).astype(kind).reshape(shape)


def _read_irregular(
    data: Any, dtype: Dtype | None
) -> tuple[tuple[int, ...], Dtype, _Leaves]:
    """Read data that is not one block of numbers: return its shape, its dtype and its numbers."""
    flat = _Leaves()
    shape = measure_first(data)
    if dtype is None:
        try:
            collect_classes(data, flat.classes, flat.dtypes)
        except RecursionError:
            raise _explain_depth(data) from None
        dtype = _infer(flat)
    read_numbers(data, shape, dtype, flat.append)
    return shape, dtype, flat


def _infer_dtype(kinds: set[type]) -> Dtype:
    """The dtype implied by Python numbers of these classes."""
    if float in kinds:
        return types.get_default_dtype()
    return types.int64 if int in kinds else types.bool_


def _truncate(flat: list[Any], kind: np.dtype) -> list[int]:
    """Return numbers without their fractions. Raises RuntimeError if one does not fit."""
    info, values = np.iinfo(kind), np.array(flat, np.float64)
    if not ((values >= info.min) & (values <= info.max)).all():
        _check_fit(flat, kind)
    return [int(v) for v in flat]


def _check_fit(flat: list[Any], kind: np.dtype) -> None:
    highest = 2**64 if kind == np.uint64 else 2**63
    if any(isinstance(v, int) and not -(2**63) <= v < highest for v in flat):
        raise ValueError("Overflow when unpacking long long")
    if not all(fits(v, kind) for v in flat):
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")


def _wrap_integers(flat: list[int], dtype: Dtype) -> np.ndarray:
    """Return integers of which not all lie between the limits: negative ones wrap around."""
    _check_fit(flat, dtype.numpy)
    size = 1 << 8 * dtype.numpy.itemsize
    return np.array([v % size for v in flat], dtype.numpy)


def _is_number(value: Any, dtype: Dtype | None) -> bool:
    """Whether a leaf is a number that tensors of `dtype` (None: any) hold."""
    if isinstance(value, complex):
        return dtype is None or dtype.is_complex or dtype is types.bool_
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _explain_depth(data: Any) -> Exception:
    """Return the error for data nested deeper than Python's stack."""
    if _holds_itself(data):
        return TypeError("new(): self-referential lists are incompatible")
    return ValueError(f"too many dimensions '{type(data).__name__}'")


def _holds_itself(data: Any, above: tuple[int, ...] = ()) -> bool:
    """Whether a list contains itself, at any depth."""
    if not isinstance(data, (list, tuple)):
        return False
    return id(data) in above or any(_holds_itself(v, (*above, id(data))) for v in data)


def _measure(data: Any, flat: _Leaves) -> tuple[int, ...]:
    """Return the shape of nested sequences; append their leaves to `flat` as Python numbers."""
    if isinstance(data, Tensor):
        return _measure_array(data._array, flat)
    if isinstance(data, np.ndarray):
        return _measure_array(data, flat)
    if isinstance(data, (list, tuple, range)) or (
        hasattr(data, "__len__") and hasattr(data, "__getitem__")
        and not isinstance(data, (str, bytes, dict, set))
    ):
        return _measure_sequence(data, flat)
    flat.append(data)
    flat.classes.add(type(data))
    return ()


def _measure_array(array: np.ndarray, flat: _Leaves) -> tuple[int, ...]:
    array, kind = widen(array), array.dtype
    flat.extend(array.astype(np.float32).ravel() if array.dtype.kind == "V" else array.ravel())
    flat.dtypes.add(from_numpy_dtype(kind))
    return array.shape


def _measure_item(item: Any, flat: _Leaves) -> tuple[int, ...]:
    """Return the shape of one item of a sequence; a tensor counts as the number it contains."""
    if not isinstance(item, Tensor):
        return _measure(item, flat)
    if item._array.size != 1:
        raise _Irregular
    _measure_array(item._array, flat)
    return ()


def _measure_sequence(data: Any, flat: _Leaves) -> tuple[int, ...]:
    if isinstance(data, (list, tuple, range)) and (classes := set(map(type, data))) <= _PLAIN:
        flat.extend(data)
        flat.classes |= classes
        return (len(data),)
    shape: tuple[int, ...] | None = None
    for i in range(len(data)):
        try:
            item = data[i]
        except Exception:
            raise ValueError("could not determine the shape of object type "
                             f"'{type(data).__name__}'") from None
        result = _measure_item(item, flat)
        if shape is None:
            shape = result
        elif result != shape:
            raise _Irregular
    return (len(data), *(shape or ()))


def _infer(flat: _Leaves) -> Dtype:
    """Return the dtype that all numbers promote to; the default dtype if there are none."""
    default = types.get_default_dtype()
    of_python = {bool: types.bool_, int: types.int64, float: default,
                 complex: default.to_complex()}
    dtypes = set(flat.dtypes)
    for kind in flat.classes:
        if issubclass(kind, np.generic):
            dtypes.add(from_numpy_dtype(np.dtype(kind)))
            continue
        dtypes.update([d for base, d in of_python.items() if issubclass(kind, base)][:1])
    return functools.reduce(promote_types, dtypes) if dtypes else default
