"""Indexing for `__torch_dispatch__`: one call per integer, slice and None, as in PyTorch, and one
of `aten.index.Tensor` with a list of tensors, None where an axis stays whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....autograd.mode import MODE
from ....autograd.tape import requires
from ....tensor.dtypes import bool_, uint8
from ....tensor.tensor import Tensor, wrap
from ...core.aten import aten
from ...core.operator import PUBLIC
from ...indexing import index as indexing
from .writes import write_values

Call = Callable[..., Any]  # dispatches an overload with its arguments

_WHOLE = slice(None)
_SEQUENCES = (list, tuple, range, np.ndarray)


class DispatchedPositions(tuple[Any, ...]):
    """Positions recorded for a derivative, with the tensors from which they came."""

    indices: list[Tensor | None]


def index_basic(call: Call, x: Any, index: Any) -> Any:
    """Return x[index], by a call(overload, arguments) for each integer, slice and None."""
    entries = index if isinstance(index, tuple) else (index,)
    axes = sum(e is not None and e is not Ellipsis for e in entries)
    if axes > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    if entries in ((_WHOLE,), (_WHOLE, Ellipsis)):
        return call(aten.slice.Tensor, (x, 0, 0, sys.maxsize))
    result, axis = x, 0
    for k, entry in enumerate(entries):
        if entry is Ellipsis:
            axis = result.dim() - sum(e is not None for e in entries[k + 1 :])
        elif entry is None:
            result = call(aten.unsqueeze.default, (result, axis))
            axis += 1
        elif isinstance(entry, slice):
            if entry != _WHOLE:
                result = call(aten.slice.Tensor, (result, axis, *_read_bounds(entry)))
            axis += 1
        else:
            result = call(aten.select.int, (result, axis, int(entry)))
    return call(aten.alias.default, (x,)) if result is x else result


def _read_bounds(entry: slice) -> tuple[int, ...]:
    start = 0 if entry.start is None else int(entry.start)
    end = sys.maxsize if entry.stop is None else int(entry.stop)
    return (start, end) if entry.step in (None, 1) else (start, end, int(entry.step))


def split_index(x: Tensor, index: Any) -> tuple[tuple, list[Tensor | None]]:
    """Return the basic part of an index, and the tensors that are left for each axis after it."""
    if index.__class__ is list and indexing.is_tuple_of_indices(index):
        index = tuple(index)
    entries = [_convert_entry(item) for item in (index if index.__class__ is tuple else (index,))]
    used = sum(_count_axes(entry) for entry in entries)
    basic: list[Any] = []
    rest: list[Tensor | None] = []
    for entry in entries:
        if entry is Ellipsis:
            basic.append(entry)
            rest += [None] * (x.dim() - used)
        elif isinstance(entry, Tensor):
            basic += [_WHOLE] * _count_axes(entry)
            rest.append(entry)
        elif entry.__class__ is bool:
            basic.append(None)
            rest.append(wrap(np.zeros(int(entry), np.int64)))
        else:
            basic.append(entry)
            rest += [] if entry.__class__ is int else [None]
    while rest and rest[-1] is None:
        rest.pop()
    return (tuple(basic) if Ellipsis in basic else (*basic, Ellipsis)), rest


def _convert_entry(item: Any) -> Any:
    """An entry as an int, a bool, a slice, None, an ellipsis or a tensor."""
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if isinstance(item, Tensor):
        if item.dtype.is_floating_point or item.dtype.is_complex:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if item.dim():
            return item
        return bool(item) if item.dtype in (bool_, uint8) else int(item)
    if item is None or item is Ellipsis or isinstance(item, (int, slice)):
        return item
    position = indexing.as_index(item)
    return wrap(position) if isinstance(position, np.ndarray) else position


def _count_axes(entry: Any) -> int:
    """The number of the tensor's axes that an entry takes."""
    if isinstance(entry, Tensor):
        return entry.dim() if entry.dtype in (bool_, uint8) else 1
    return int(not (entry is None or entry is Ellipsis or entry.__class__ is bool))


def is_whole(basic: tuple) -> bool:
    """Whether the basic part of an index changes nothing."""
    return all(entry is Ellipsis or entry == _WHOLE for entry in basic)


def make_positions(indices: Sequence[Tensor | None]) -> DispatchedPositions:
    """Return the positions that a derivative reads, of tensors and None."""
    positions = DispatchedPositions(_WHOLE if i is None else i._array for i in indices)
    positions.indices = list(indices)
    return positions


def _list_tensors(indices: Any) -> list[Tensor | None]:
    """Return positions as PyTorch's list of tensors and None."""
    if isinstance(indices, DispatchedPositions):
        return indices.indices
    result = [None if isinstance(item, slice) else wrap(item) for item in indices]
    while result and result[-1] is None:
        result.pop()
    return result


def _gather(call: Call, x: Any, indices: Any) -> Any:
    return call(aten.index.Tensor, (x, _list_tensors(indices)))


def _scatter(call: Call, g: Any, shape: Any, indices: Any) -> Any:
    zeros = call(aten.new_zeros.default, (g, list(shape)))
    return call(aten.index_put.default, (zeros, _list_tensors(indices), g, True))


def _put(call: Call, x: Any, values: Any, indices: Any, accumulate: bool) -> Any:
    extra = (True,) if accumulate else ()
    return call(aten.index_put.default, (x, _list_tensors(indices), values, *extra))


# Operators that PyTorch splits into others, by name.
SPLIT: dict[str, Callable[..., Any]] = {
    "_slice": index_basic, "index": _gather, "index_adjoint": _scatter, "_index_put": _put,
}


def write_index(call: Call, x: Any, index: Any, value: Any) -> None:
    """x[index] = value, by the calls that PyTorch makes of it, recorded at the indices of `x`.

    NotImplementedError for slices and tensors in one index where a gradient is to be recorded.
    """
    basic, indices = split_index(x, index)
    target = x if is_whole(basic) else index_basic(call, x, basic)
    if not isinstance(value, Tensor):
        value = PUBLIC["torch"]["tensor"](value, dtype=x.dtype)
    while value.dim() > target.dim() and value.shape[0] == 1:
        value = value[0]
    arguments: tuple
    if indices:
        func, arguments = aten.index_put_.default, (target, indices, value)
    elif value.dim() or not target.dim():
        func, arguments = aten.copy_.default, (target, value)
    else:
        func, arguments = aten.fill_.Tensor, (target, value)
    if target is not x and indices and MODE.grad and (requires(x) or requires(value)):
        raise NotImplementedError(
            "Tensor.__setitem__ of slices and tensors on classes with __torch_dispatch__ that "
            "require gradients is not implemented in flambeau"
        )
    positions = make_positions(indices) if indices else None if target is x else _make_grid(x,
                                                                                            basic)
    write_values(call, x, "setitem", func, arguments, {}, value, positions)


def _make_grid(x: Any, basic: tuple) -> DispatchedPositions:
    """Return the positions of x[basic] as one array of indices for each axis."""
    shape = tuple(x.shape)
    flat = np.arange(x.numel()).reshape(shape)[basic]
    return make_positions([wrap(axis) for axis in np.unravel_index(flat, shape)])


PUBLIC.setdefault("aten", {})["alias"] = lambda self: self.view_as(self)
