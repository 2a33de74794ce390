"""Types from annotations and from values. Raises PyTorch's errors for types without arguments."""

from __future__ import annotations

import enum
import types
import typing
from typing import Any

from ...futures import Future
from ...nn.module import Module
from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.tensor import Tensor
from .source import is_library
from .types import (
    ANY, BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, STR, TENSOR, UNKNOWN, Kind, make_dict,
    is_known, make_list, make_tuple, make_union,
)

__all__ = ["find_class_kind", "find_value_kind", "read_annotation"]

_PLAIN = {int: INT, float: FLOAT, bool: BOOL, complex: COMPLEX, str: STR, type(None): NONE,
          None: NONE, dtype: INT, device: DEVICE}
_BARE = {typing.List: ("List", "a", "e.g. List[int]"),  # noqa: UP006  # as programs write it
         typing.Tuple: ("Tuple", "a", "e.g. Tuple[int]"),  # noqa: UP006
         typing.Dict: ("Dict", "", "e.g. Dict[int, int]"),  # noqa: UP006
         typing.Optional: ("Optional", "a", "e.g. Optional[int]")}
_KEYS = (INT, FLOAT, BOOL, COMPLEX, STR, TENSOR, DEVICE, UNKNOWN)


def read_annotation(annotation: Any) -> Kind:
    """Return the type that an annotation names, or UNKNOWN. Raise RuntimeError for `List` etc."""
    if annotation is Any:
        return ANY
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return TENSOR
    if isinstance(annotation, (type, type(None))) and annotation in _PLAIN:
        return _PLAIN[annotation]
    _refuse_bare(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Future:
        raise RuntimeError("Attempted to use Future without a contained type. Please add a "
                           "contained type, e.g. Future[int]")
    if origin in (typing.Union, types.UnionType):
        if set(inner) == {int, float, complex}:
            return Kind("number")
        return make_union(*map(read_annotation, inner))
    if origin is list and len(inner) == 1:
        return make_list(read_annotation(inner[0]))
    if origin is tuple and ... not in inner:
        return make_tuple(*map(read_annotation, inner))
    if origin is dict and len(inner) == 2:
        return _dictionary(*inner)
    if origin is Future and inner:
        return Kind("Future", (read_annotation(inner[0]),))
    return find_class_kind(annotation) if isinstance(annotation, type) else UNKNOWN


def _refuse_bare(annotation: Any) -> None:
    for bare, (name, article, example) in _BARE.items():
        if annotation is bare:
            detail, it = (f"{article} contained type", "a contained type") if article else \
                ("contained types", "contained type")
            raise RuntimeError(
                f"Attempted to use {name} without {detail}. Please add {it}, {example}")


def _dictionary(key: Any, value: Any) -> Kind:
    for part in (key, value):
        if isinstance(part, type) and issubclass(part, Module) \
                and not hasattr(part, "_torchscript_interface"):
            raise ValueError(f"Unknown type annotation: '{part}' at the dictionary")
    kind = read_annotation(key)
    if kind not in _KEYS:
        raise RuntimeError(f"Cannot create dict for key type '{kind}', only int, float, complex, "
                           "Tensor, device and string keys are supported")
    return make_dict(kind, read_annotation(value))


def find_class_kind(kind: type) -> Kind:
    """Return the type of a class's objects: named tuples, enums, interfaces, script classes."""
    name = f"__torch__.{kind.__module__}.{kind.__name__}"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Kind(kind.__name__, _fields(kind), kind)
    if issubclass(kind, enum.Enum):
        _check_enum(kind)
        return Kind(f"Enum<{name}>", (), kind)
    if vars(kind).get("_torchscript_interface") is kind:
        return Kind(name, (), kind)
    plain = (Module, tuple, list, dict, str, int, float, BaseException)
    if is_library(kind) or issubclass(kind, plain) or kind.__module__.partition(".")[0] in (
            "builtins", "typing", "collections"):
        return UNKNOWN
    return Kind(name, (), kind)


def _fields(kind: Any) -> tuple[Kind, ...]:
    try:
        hints = typing.get_type_hints(kind)
    except (NameError, TypeError):
        return (UNKNOWN,) * len(kind._fields)
    return tuple(read_annotation(hints.get(field, Tensor)) for field in kind._fields)


def _check_enum(kind: type[enum.Enum]) -> None:
    kinds = list(dict.fromkeys(find_value_kind(member.value) for member in kind))
    if len(kinds) > 1 and all(k in (INT, FLOAT, STR) for k in kinds):
        raise RuntimeError("Could not unify type list. Enum values must have the same type: "
                           f"{', '.join(map(str, kinds))}")
    if len(kinds) == 1 and is_known(kinds[0]) and kinds[0] not in (INT, FLOAT, STR):
        raise RuntimeError(f"Cannot create Enum with value type '{kinds[0]}', only int, float "
                           "and string are supported")


def find_value_kind(value: Any) -> Kind:
    """Return the type of a Python value, or UNKNOWN."""
    if isinstance(value, Tensor):
        return TENSOR
    if type(value) in _PLAIN:
        return _PLAIN[type(value)]
    if type(value) is tuple:
        return make_tuple(*map(find_value_kind, value))
    if type(value) is list and value:
        kinds = set(map(find_value_kind, value))
        return make_list(kinds.pop() if len(kinds) == 1 else UNKNOWN)
    if type(value) is dict and value:
        keys, values = set(map(find_value_kind, value)), set(map(find_value_kind, value.values()))
        if len(keys) == len(values) == 1:
            return make_dict(keys.pop(), values.pop())
        return UNKNOWN
    has_class_kind = isinstance(value, enum.Enum) or hasattr(value, "_fields")
    result = find_class_kind(type(value)) if has_class_kind else UNKNOWN
    return result if is_known(result) else UNKNOWN
