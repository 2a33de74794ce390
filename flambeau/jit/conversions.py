"""Conversion of Python values to TorchScript's: which ones fit a type, and copies of containers."""

from __future__ import annotations

import enum
from typing import Any

from ..nn.module import Module
from ..tensor.devices import device
from ..tensor.tensor import Tensor
from .checking.annotations import find_value_kind
from .checking.interfaces import explain_mismatch
from .checking.types import (
    ANY, BOOL, COMPLEX, DEVICE, FLOAT, INT, NONE, STR, TENSOR, UNKNOWN, Kind, format_annotation,
)
from .script_containers import ScriptDict, ScriptList

__all__ = ["CastError", "convert_value"]

_NUMBERS = {INT: (int,), FLOAT: (int, float), COMPLEX: (int, float, complex), BOOL: (int, float)}
_PYTHON = {INT: int, FLOAT: float, COMPLEX: complex, BOOL: bool}


class CastError(Exception):
    """A value does not fit a type."""


def _refuse(value: Any) -> CastError:
    return CastError(
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define "
        "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)")


def convert_value(value: Any, kind: Kind) -> Any:
    """Return a value as one of a type. Raise CastError if it does not fit."""
    if kind in (UNKNOWN, ANY):
        return value
    if kind == TENSOR:
        if not isinstance(value, Tensor):
            raise CastError(f"Unable to cast {value} to Tensor")
        return value
    if kind in _NUMBERS:
        return _convert_number(value, kind)
    if kind in (STR, NONE, DEVICE):
        accepted: Any = {STR: str, NONE: type(None), DEVICE: (device, str)}[kind]
        if not isinstance(value, accepted):
            raise _refuse(value)
        return value
    if kind.name == "Union":
        return _convert_to_member(value, kind)
    if kind.python is not None:
        return _convert_object(value, kind)
    if kind.name in ("List", "Dict", "Tuple"):
        return _convert_container(value, kind)
    return value


def _convert_number(value: Any, kind: Kind) -> Any:
    if isinstance(value, Tensor):
        if value.numel() != 1 or kind == BOOL:
            raise _refuse(value)
        return value
    if type(value) not in (bool, *_NUMBERS[kind]) and isinstance(value, (str, list, dict, tuple)) \
            or value is None or kind == INT and isinstance(value, (float, complex)) \
            or kind == FLOAT and isinstance(value, complex):
        raise _refuse(value)
    if kind == FLOAT and type(value) is int or kind == BOOL and type(value) is not bool:
        return _PYTHON[kind](value)
    return value


def _convert_to_member(value: Any, kind: Kind) -> Any:
    for member in kind.inner:
        if member == NONE and value is None:
            return value
    exact = [m for m in kind.inner if _PYTHON.get(m) is type(value)]
    failure: CastError | None = None
    for member in exact or kind.inner:
        try:
            return convert_value(value, member)
        except CastError as error:
            failure = error
    if len(kind.inner) == 2 and NONE in kind.inner and failure is not None:
        raise failure
    raise CastError(f"Expected a member of {format_annotation(kind)} but instead found type "
                    f"{format_annotation(find_value_kind(value))}")


def _convert_container(value: Any, kind: Kind) -> Any:
    if isinstance(value, (ScriptList, ScriptDict)):
        return value
    if kind.name == "List":
        if not isinstance(value, (list, tuple)):
            is_other = isinstance(value, (Tensor, dict, str)) or not hasattr(value, "__iter__")
            return _fail(value) if is_other else value
        return [convert_value(element, kind.inner[0]) for element in value]
    if kind.name == "Dict":
        if not isinstance(value, dict):
            _fail(value)
        key, element = kind.inner
        return {convert_value(k, key): convert_value(v, element) for k, v in value.items()}
    if not isinstance(value, (tuple, list)):
        _fail(value)
    if len(value) != len(kind.inner):
        raise CastError(f"Object {value} had a different number of elements than type {kind}")
    return tuple(map(convert_value, value, kind.inner))


def _fail(value: Any) -> Any:
    raise _refuse(value)


def _convert_object(value: Any, kind: Kind) -> Any:
    """Check an object of a named tuple, enum, interface or script class."""
    python = kind.python
    if not isinstance(python, type):
        return value
    if hasattr(python, "_torchscript_interface"):
        problem = explain_mismatch(value, python)
        if problem:
            raise CastError(problem)
        return value
    if hasattr(python, "_fields"):
        if not isinstance(value, tuple) or len(value) != len(kind.inner):
            _fail(value)
        items = list(map(convert_value, value, kind.inner))
        return python(*items)
    if isinstance(value, (python, Module)):
        return value
    if issubclass(python, enum.Enum):
        raise CastError(f"Object {value!r} is not of type {kind}")
    for name in vars(python).get("__annotations__", {}):
        if not hasattr(value, name):
            raise CastError(f"Tried to cast object to type {kind} but object was missing "
                            f"attribute {name}")
    if isinstance(value, (int, float, str, Tensor)):
        _fail(value)
    return value
