"""Collation: join a list of samples into one batch of the same structure."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from itertools import repeat
from operator import attrgetter, is_, ne
from typing import Any

import numpy as np

from .... import ops
from ....tensor import Tensor
from ....tensor.capture_marks import may_write_arrays
from ....tensor.dtypes import FROM_NUMPY, float64
from ....tensor.tensor import wrap
from ..workers.arena import allocate_shared_batch

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # of a dtype's str; libraries import it
_WIDEST = 1 << 63


def _holds_text(array: np.ndarray) -> bool:
    """Return whether an array holds strings or Python objects, which tensors cannot."""
    return np_str_obj_array_pattern.search(array.dtype.str) is not None


def _fill_mapping(example: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return `items` in a copy of the example mapping, or in a dict if that fails."""
    try:
        if isinstance(example, MutableMapping):
            result = copy.copy(example)
            result.update(items)
            return result
        cls: Any = type(example)
        return cls(items)
    except TypeError:  # no copy, no update, or a different constructor
        return items


def _fill_sequence(example: Sequence[Any], items: list[Any]) -> Any:
    """Return `items` in a sequence of the example's type. Tuples and failures become lists."""
    try:
        if isinstance(example, MutableSequence):
            result = copy.copy(example)
            for i, item in enumerate(items):
                result[i] = item
            return result
        cls: Any = type(example)
        return items if isinstance(example, tuple) else cls(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays and scalars inside `data` to tensors; leave the rest unchanged.

    >>> default_convert([np.array([1, 2]), "text"])
    [tensor([1, 2]), 'text']
    """
    cls = type(data)
    if isinstance(data, Tensor):
        return data
    if cls.__module__ == "numpy" and cls.__name__ not in ("str_", "string_"):
        if isinstance(data, np.ndarray) and _holds_text(data):
            return data
        return ops.as_tensor(data)
    if isinstance(data, Mapping):
        return _fill_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return cls(*(default_convert(element) for element in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _fill_sequence(data, [default_convert(element) for element in data])
    return data


CollateFunction = Callable[..., Any]
CollateMap = dict[type | tuple[type, ...], CollateFunction]


def _refuse(result: object) -> TypeError:
    return TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {result}"
    )


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Join samples by the first one's type, using `collate_fn_map` where it has the type.

    Mappings, named tuples and sequences are joined elementwise. Raises RuntimeError if sequences
    differ in length, TypeError for types it cannot join.
    """
    example = batch[0]
    cls = type(example)
    if collate_fn_map is not None:
        chosen = collate_fn_map.get(cls) or next(
            (join for types, join in collate_fn_map.items() if isinstance(example, types)), None
        )
        if chosen is not None:
            return chosen(batch, collate_fn_map=collate_fn_map)
    if isinstance(example, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in example
        }
        return _fill_mapping(example, columns)
    if not isinstance(example, Sequence):
        raise _refuse(cls)
    is_namedtuple = isinstance(example, tuple) and hasattr(example, "_fields")
    if not is_namedtuple and len({*map(len, batch)}) != 1:
        raise RuntimeError("each element in list of batch should be of equal size")
    fields = _collate_parts(zip(*batch, strict=False), collate_fn_map)
    return cls(*fields) if is_namedtuple else _fill_sequence(example, fields)


def _collate_parts(columns: Iterable[Any], collate_fn_map: CollateMap | None) -> list[Any]:
    return [collate(column, collate_fn_map=collate_fn_map) for column in columns]


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Stack tensors along a new first dimension."""
    if {*map(type, batch)} == {Tensor} and not _require_grad(batch) and may_write_arrays():
        stacked = _stack([*map(_ARRAY, batch)])
        if stacked is not None:  # same result, without autograd's overhead per tensor
            return wrap(stacked)
    return ops.stack(batch, 0)


_ARRAY, _DTYPE, _SHAPE = attrgetter("_array"), attrgetter("dtype"), attrgetter("shape")
_TRACKED = attrgetter("_tracked")
_SMALL_BYTES = 4096


def _require_grad(tensors: Any) -> bool:
    return any(map(_TRACKED, tensors)) and any(tensor.requires_grad for tensor in tensors)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Join arrays as tensors. Raises TypeError for arrays of text or objects."""
    first = batch[0]
    if _holds_text(first):
        raise _refuse(first.dtype)
    uses_default = collate_fn_map is not None and collate_fn_map.get(Tensor) is collate_tensor_fn
    if uses_default and first.dtype in FROM_NUMPY:
        stacked = _stack(batch)
        if stacked is not None:
            return wrap(stacked)
    return collate([ops.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _stack(arrays: Any) -> np.ndarray | None:
    """Stack arrays, in shared memory in a worker. Return None if dtypes or shapes differ."""
    first = arrays[0]
    if {*map(type, arrays)} != {np.ndarray}:
        return None
    if not all(map(is_, map(_DTYPE, arrays), repeat(first.dtype))):
        return None
    shape = len(arrays), *first.shape
    if first.nbytes <= _SMALL_BYTES:
        try:
            stacked = np.array(arrays)  # checks each array, which is most of the cost
        except ValueError:
            return None
        return stacked if stacked.shape == shape else None
    if any(map(ne, map(_SHAPE, arrays), repeat(first.shape))):
        return None
    buffer = allocate_shared_batch(shape, first.dtype)
    stacked = np.empty(shape, first.dtype) if buffer is None else buffer
    for i, array in enumerate(arrays):
        stacked[i] = array
    return stacked


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a tensor of NumPy scalars, in their dtype."""
    return ops.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a float64 tensor of Python floats."""
    if set(map(type, batch)) == {float}:
        return ops.from_numpy(np.array(batch, np.float64))  # same result, faster
    return ops.tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a tensor of Python ints (or bools)."""
    if set(map(type, batch)) == {int} and -_WIDEST <= min(batch) <= max(batch) < _WIDEST:
        return ops.from_numpy(np.array(batch, np.int64))  # same result, faster
    return ops.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return the list of texts."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Join a list of samples into one batch with a new first dimension.

    Tensors are stacked, arrays and numbers become tensors (floats float64), text stays a list, and
    dicts, lists and (named) tuples are joined elementwise; plain tuples become lists. Add types to
    `default_collate_fn_map` to extend it.

    >>> default_collate([(0, "a"), (1, "b")])
    [tensor([0, 1]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
