"""Specialization keys: two calls with equal keys may share a program."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from ...tensor.windows.opaque_window import OpaqueWindow
from ..proof.provenance import is_number
from ..proof.purity import is_read_by_path
from ..trace.bindings import describe_aliasing
from ..trace.operands import flatten, is_named_tuple, read_flags
from ..trace.plain_values import PLAIN, make_plain_key
from ..trace.trace import address


def describe_argument(x: Any) -> Any:
    """Return a key for an argument: its structure, shapes, dtypes, plain values, identities."""
    kind = type(x)
    if kind in (tuple, list) or is_named_tuple(x):
        return (kind, *map(describe_argument, x))
    if kind is dict:
        return (kind, *((key, describe_argument(value)) for key, value in x.items()))
    if issubclass(kind, Tensor):
        a = x._array
        if isinstance(a, OpaqueWindow):  # some have no shape; calls with them stay eager
            return kind, (), a.__class__
        return kind, a.shape, a.strides, a.dtype, a.__class__, *read_flags(x)
    if issubclass(kind, np.ndarray):
        return kind, x.shape, x.strides, x.dtype
    if issubclass(kind, (*PLAIN, np.generic)):
        return make_plain_key(x)
    return (kind,) if is_read_by_path(x) else (kind, id(x))


def describe_call(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return a key for a call's arguments, with top-level numbers replaced by their classes."""
    return (*map(_describe_any_number, args),
            *((key, _describe_any_number(x)) for key, x in kwargs.items()))


def _describe_any_number(x: Any) -> Any:
    return type(x) if is_number(x) else describe_argument(x)


def describe_tensors(x: Any) -> Any:
    """Return a key for only the tensors and arrays among the arguments."""
    return tuple(describe_argument(leaf) for leaf in flatten(x)
                 if issubclass(type(leaf), (Tensor, np.ndarray)))


def compare_extents(a: Any, b: Any) -> tuple[int, ...] | None:
    """Return by how much each dimension of the tensors of `b` exceeds that of `a`; None if ranks
    differ, a dimension is smaller, or none is larger. Both are keys from describe_tensors."""
    if len(a) != len(b) or any(len(x) != len(y) or x[0] is not y[0] or len(x[1]) != len(y[1])
                               for x, y in zip(a, b, strict=True)):
        return None
    more = [n - m for x, y in zip(a, b, strict=True) for m, n in zip(x[1], y[1], strict=True)]
    return tuple(more) if any(more) and min(more) >= 0 else None


def describe_overlap(
    arguments: tuple[tuple, dict, list], reachable: dict[int, weakref.ref]
) -> tuple[tuple, ...]:
    """Describe arguments that share memory with an earlier one (all of it, part of it, or disjoint
    parts) and whether they are the same object or views of one tensor. Also list those whose memory
    the step reaches without them, given by id in `reachable`."""
    met: dict[int, tuple[int, Any, np.ndarray]] = {}
    result: list[tuple] = []
    for i, leaf in enumerate(flatten(arguments)):
        array = leaf._array if issubclass(type(leaf), Tensor) else leaf
        if not issubclass(type(array), np.ndarray):
            continue
        owner = find_owner(array)
        if (known := reachable.get(id(owner))) is not None and known() is owner:
            result.append((i, id(array)))
        first, earlier, other = met.setdefault(id(owner), (i, leaf, array))
        if first != i:
            disjoint = not np.may_share_memory(array, other)
            same = address(array) == address(other)
            place = "same" if same else "apart" if disjoint else "partly"
            result.append((first, i, place, *describe_aliasing(earlier, leaf)))
    return tuple(result)
