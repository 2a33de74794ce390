"""Kinds: what makes two calls of the same kind, so that one program may serve both."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor
from ..trace.operands import arrays_in
from ..trace.plain_values import PLAIN, plain_key
from ..runtime.guarded_call import is_named
from ..trace.trace import address


def flat(x: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    if x.__class__ in (tuple, list) or is_named(x):
        return [leaf for one in x for leaf in flat(one)]
    if x.__class__ is dict:
        return flat(list(x.values()))
    return [x]


def described(x: Any) -> Any:
    """A key for an argument: structure, shapes, dtypes, plain values, identities."""
    kind = x.__class__
    if kind in (tuple, list) or is_named(x):
        return (kind, *map(described, x))
    if kind is dict:
        return (kind, *((key, described(value)) for key, value in x.items()))
    if isinstance(x, Tensor):
        a = x._array
        return kind, a.shape, a.strides, a.dtype, a.__class__, bool(x.requires_grad)
    if isinstance(x, np.ndarray):
        return kind, x.shape, x.strides, x.dtype
    return plain_key(x) if isinstance(x, (*PLAIN, np.generic)) else (kind, id(x))


def shared(given: tuple[tuple, dict]) -> tuple[tuple[int, int, str], ...]:
    """Which arguments lie on the memory of an earlier one: on all of it, a part, or beside it."""
    met: dict[int, tuple[int, np.ndarray]] = {}
    found = []
    for i, array in enumerate(arrays_in(given)):
        first, other = met.setdefault(id(owner_of(array)), (i, array))
        if first != i:
            apart = not np.may_share_memory(array, other)
            same = address(array) == address(other)
            found.append((first, i, "same" if same else "apart" if apart else "partly"))
    return tuple(found)
