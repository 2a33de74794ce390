"""What guards compare of a call's arguments, taken when the call is recorded.

A program is built later, and must keep no argument alive meanwhile.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from ..proof.purity import is_read_by_path
from ..trace.carried_values import Carried
from ..trace.operands import is_named_tuple, read_flags
from ..trace.plain_values import PLAIN


@dataclass(eq=False)
class ArrayLayout:
    """The layout of an argument's array. `owner`: a weak reference to the owner of its memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    array: weakref.ref[np.ndarray]
    owner: weakref.ref[np.ndarray]

    @classmethod
    def of(cls, array: np.ndarray) -> ArrayLayout:
        """Describe an array."""
        owner = find_owner(array)
        return cls(array.shape, array.strides, array.dtype, weakref.ref(array), weakref.ref(owner))


@dataclass(eq=False)
class TensorLayout:
    """A tensor argument: its class, its array, its flags, whether a node made it, and its id while
    the call ran."""

    kind: type
    array: ArrayLayout
    requires_grad: bool
    is_inference: bool
    has_history: bool
    id: int


@dataclass(eq=False)
class ObjectArgument:
    """Any other argument: its class, and the object itself if guards compare its identity."""

    kind: type
    value: Any


def describe_call(args: tuple, kwargs: dict[str, Any], carried: Sequence[Carried]) -> tuple:
    """Describe the arguments of a call, and what it takes over from the call before."""
    return (describe_arguments(args), describe_arguments(kwargs),
            [Carried(each.place, describe_arguments(each.value)) for each in carried])


def describe_arguments(x: Any) -> Any:
    """Replace the leaves of nested arguments by descriptions, except for plain values."""
    kind = type(x)
    if is_named_tuple(x):
        return tuple.__new__(kind, map(describe_arguments, x))
    if kind in (tuple, list):
        return kind(map(describe_arguments, x))
    if kind is dict:
        return {key: describe_arguments(value) for key, value in x.items()}
    if issubclass(kind, Tensor):
        return TensorLayout(kind, ArrayLayout.of(x._array), *read_flags(x),
                            x._history() is not None, id(x))
    if issubclass(kind, np.ndarray):
        return ArrayLayout.of(x)
    if issubclass(kind, (*PLAIN, np.generic)):
        return x
    return ObjectArgument(kind, None if is_read_by_path(x) else x)
