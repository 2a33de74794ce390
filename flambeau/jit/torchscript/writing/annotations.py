"""Convert Python annotations to TorchScript types."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from ...._awaits import _Await
from ....nn.module import Module
from ....tensor.devices import device
from ....tensor.dtypes import dtype
from ....tensor.tensor import Tensor

__all__ = ["SCRIPTED_CLASSES", "is_named_tuple", "is_written_class", "type_of_value", "type_text"]

SCRIPTED_CLASSES: WeakSet[type] = WeakSet()  # classes passed to torch.jit.script

_PLAIN = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex",
          type(None): "NoneType", None: "NoneType", dtype: "int", device: "Device", Any: "Any"}


def is_named_tuple(kind: Any) -> bool:
    """Return whether `kind` is a named tuple class."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_written_class(kind: Any) -> bool:
    """Return whether archives declare the class: an enum, interface or user-defined class."""
    if not isinstance(kind, type) or issubclass(kind, (Tensor, BaseException)):
        return False
    if issubclass(kind, enum.Enum) or getattr(kind, "_torchscript_interface", None) is kind:
        return True
    return not issubclass(kind, (Module, tuple, list, dict, set, str, int, float)) \
        and kind.__module__.partition(".")[0] not in (
            "builtins", "typing", "flambeau", "collections", "types", "numpy", "abc")


def type_text(annotation: Any, declare: Callable[[Any], str] | None = None) -> str:
    """Convert an annotation to text. Raise NotImplementedError if TorchScript lacks the type.

    `declare` adds a user-defined class to the archive and returns its name.
    """
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return "Tensor"
    if isinstance(annotation, (type, type(None))) and annotation in _PLAIN or annotation is Any:
        return _PLAIN[annotation]
    if declare is not None and (is_named_tuple(annotation) or is_written_class(annotation)):
        return declare(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inner if a is not type(None)]
        if len(rest) == 1 and len(inner) == 2:
            return f"Optional[{type_text(rest[0], declare)}]"
        return f"Union[{', '.join(type_text(a, declare) for a in inner)}]"
    if origin is tuple and not inner:
        return "Tuple[()]"
    if origin in (list, tuple, dict) and inner and ... not in inner:
        name = {list: "List", tuple: "Tuple", dict: "Dict"}[origin]
        return f"{name}[{', '.join(type_text(a, declare) for a in inner)}]"
    if origin is _Await:  # delayed calls are written as plain ones
        return type_text(inner[0], declare)
    raise NotImplementedError(f"the type {annotation}")


def type_of_value(value: Any, declare: Callable[[Any], str] | None = None) -> str:
    """Infer an attribute's type from its value. Raise NotImplementedError if unknown."""
    if isinstance(value, Tensor):
        return "Tensor"
    if type(value) in _PLAIN:
        return _PLAIN[type(value)]
    if declare is not None and (is_named_tuple(type(value)) or is_written_class(type(value))):
        return declare(type(value))
    if isinstance(value, (list, dict)) and value:
        if isinstance(value, list):
            return f"List[{type_of_value(value[0], declare)}]"
        key, item = next(iter(value.items()))
        return f"Dict[{type_of_value(key, declare)}, {type_of_value(item, declare)}]"
    if isinstance(value, tuple) and value:
        return f"Tuple[{', '.join(type_of_value(v, declare) for v in value)}]"
    raise NotImplementedError(f"an attribute of type {type(value).__name__} without annotation")
