"""`torch.jit.isinstance`: types of values with those of their elements."""

from __future__ import annotations

import types
import typing
from typing import Any

from .checking.annotations import read_annotation
from .empty_containers import check_empty_containers

__all__ = ["has_type"]


def has_type(value: Any, target: Any) -> bool:
    """Return whether a value has a type, or one of a tuple of types.

    Raises RuntimeError for other targets and for containers without the type of their elements.
    """
    targets = target if isinstance(target, tuple) else (target,)
    if isinstance(target, (list, dict, set)):
        raise RuntimeError("The second argument to `torch.jit.isinstance` must be a type or a "
                           "tuple of types")
    check_empty_containers(value)
    for kind in targets:
        read_annotation(kind)  # which refuses `List` etc.
    return any(_has_type(value, kind) for kind in targets)


def _has_type(value: Any, kind: Any) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, member) for member in inner)
    if kind is None:
        return value is None
    if origin is list:
        return isinstance(value, list) and all(_has_type(v, inner[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _has_type(k, inner[0]) and _has_type(v, inner[1]) for k, v in value.items())
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(
            map(_has_type, value, inner))
    if kind in (int, float) and type(value) is bool:
        return False
    return kind is Any or isinstance(value, origin or kind)
