"""Indexing inside vmap with an index that differs between examples.

The axes indexed by tensors are merged into one, and their indices into a single number. Rows are
read like rows of an embedding and written by scatter, so gradients follow those operators' rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...native.foundation.method_patches import library_attributes
from ...tensor.dtypes import bool_ as _bool, uint8 as _uint8
from ...tensor.tensor import Tensor
from ...tensor.tree import map_leaves_of
from ...tensor.windows.batch import find_innermost_batch
from ..core.operator import OPERATORS, PUBLIC
from . import forward_mode
from .batching import OTHER_TARGETS, refuse_write, write

_DYNAMIC = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
    "batch over indexing with a boolean mask."
)


class _Lookup(NamedTuple):
    """An index by tensors: the axis order with indexed axes first, and the merged row numbers."""

    order: list[int]  # the indexed axes, then the others
    lengths: list[int]  # of the indexed axes
    rows: Tensor  # the indices of all indexed axes as one number
    at: int  # position of the rows' axes in the result


def _list_tensors(index: Any) -> list[Tensor]:
    items = index if isinstance(index, (tuple, list)) else (index,)
    return [item for item in items if isinstance(item, Tensor)]


def _lower_shared(index: Any) -> Any:
    """Return the index with tensors that all examples share replaced by those below."""
    return map_leaves_of(Tensor, _lower_if_shared, index)


def _lower_if_shared(x: Tensor) -> Tensor:
    batch = find_innermost_batch((x,))
    return x if batch is None or batch.holds(x) else _lower_if_shared(batch.lower(x))


def _get(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    x, index = args
    if find_innermost_batch((x, *_list_tensors(index))) is None:
        return original(x, index)
    index = _lower_shared(index)
    if find_innermost_batch(_list_tensors(index)) is None:
        return forward_mode.SHORT_CUTS["__getitem__"](original, (x, index), {}, True)
    view, indices = _split(x, index)
    lookup = _look_up(view, indices)
    table = view.permute(lookup.order).reshape(_multiply_lengths(lookup.lengths), -1)
    rest = [view.shape[a] for a in lookup.order[len(lookup.lengths) :]]
    chosen = OPERATORS["_embedding"].function(table, lookup.rows).reshape(*lookup.rows.shape, *rest)
    count = lookup.rows.dim()
    return chosen.movedim(tuple(range(count)), tuple(range(lookup.at, lookup.at + count)))


def _set(original: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    x, index, value = args
    if find_innermost_batch((x, value, *_list_tensors(index))) is None:
        original(*args)
        return
    index = _lower_shared(index)
    if not isinstance(value, Tensor):
        value = PUBLIC["torch"]["tensor"](value, dtype=x.dtype)
    batch = find_innermost_batch((x,))
    if batch is None or not batch.holds(x):
        refuse_write()
    view, indices = _split(x, index)
    if not any(isinstance(p, Tensor) for p in indices):
        while value.dim() > view.dim() and value.shape[0] == 1:
            value = value.squeeze(0)
        view.copy_(value)
        return
    lookup = _look_up(view, indices)
    table = view.permute(lookup.order).reshape(_multiply_lengths(lookup.lengths), -1)
    rest = [view.shape[a] for a in lookup.order[len(lookup.lengths) :]]
    count = lookup.rows.dim()
    shape = [*rest[: lookup.at], *lookup.rows.shape, *rest[lookup.at :]]
    source = value.to(x.dtype).expand(shape).movedim(
        tuple(range(lookup.at, lookup.at + count)), tuple(range(count)))
    source = source.reshape(-1, table.shape[1])
    places_of_rows = lookup.rows.reshape(-1, 1).expand(source.shape)
    new = OPERATORS["_scatter"].function(table, 0, places_of_rows, source)
    new = new.reshape(*lookup.lengths, *rest)
    write(view, new.permute([lookup.order.index(a) for a in range(view.dim())]), "index_put_")


def _split(x: Tensor, index: Any) -> tuple[Tensor, list[Any]]:
    """Return the view taken by the plain entries of an index, and for each of its axes the indexing
    tensor or None."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [PUBLIC["torch"]["tensor"](i) if isinstance(i, (list, np.ndarray)) else i
             for i in items]
    if Ellipsis not in [i for i in items if not isinstance(i, Tensor)]:
        items.append(Ellipsis)
    used = sum(_count_axes(i) for i in items)
    plain: list[Any] = []
    indices: list[Any] = []
    for item in items:
        if isinstance(item, Tensor):
            if item.dtype in (_bool, _uint8):
                if find_innermost_batch((item,)) is not None:
                    raise RuntimeError(_DYNAMIC)
                parts = item.nonzero(as_tuple=True)
            else:
                parts = (item,)
            plain += [slice(None)] * len(parts)
            indices += parts
        elif item is Ellipsis:
            plain += [slice(None)] * (x.dim() - used)
            indices += [None] * (x.dim() - used)
        else:
            plain.append(item)
            indices += [] if isinstance(item, int) else [None]
    if all(p == slice(None) for p in plain):
        return x, indices
    return OPERATORS["_slice"].function(x, (*plain, Ellipsis)), indices


def _count_axes(item: Any) -> int:
    if isinstance(item, Tensor):
        return item.dim() if item.dtype in (_bool, _uint8) else 1
    return 0 if item is None or item is Ellipsis else 1


def _look_up(view: Tensor, indices: Sequence[Any]) -> _Lookup:
    indexed = [a for a, p in enumerate(indices) if p is not None]
    lengths = [view.shape[a] for a in indexed]
    choose = PUBLIC["torch"]["where"]
    rows: Any = 0
    inside: Any = True
    for axis, n in zip(indexed, lengths, strict=True):
        place = choose(indices[axis] < 0, indices[axis] + n, indices[axis])
        rows = rows * n + place
        if len(indexed) > 1:  # an out-of-range index may still give a valid row number
            inside = (place >= 0) & (place < n) & inside
    if inside is not True:
        rows = choose(inside, rows, _multiply_lengths(lengths))
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    others = [a for a in range(view.dim()) if a not in indexed]
    return _Lookup([*indexed, *others], lengths, rows, indexed[0] if together else 0)


def _multiply_lengths(lengths: Sequence[int]) -> int:
    return int(np.prod(lengths, dtype=np.int64))


def _find_targets() -> dict[Any, Callable]:
    methods = library_attributes(Tensor)
    return {methods["__getitem__"]: _get, methods["__setitem__"]: _set}


OTHER_TARGETS.append(_find_targets)
