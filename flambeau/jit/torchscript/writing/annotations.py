"""Convert Python annotations to TorchScript types."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

from ....tensor.devices import device
from ....tensor.dtypes import dtype
from ....tensor.tensor import Tensor

__all__ = ["is_named_tuple", "type_of_value", "type_text"]

_PLAIN = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex",
          type(None): "NoneType", None: "NoneType", dtype: "int", device: "Device", Any: "Any"}


def is_named_tuple(kind: Any) -> bool:
    """Return whether it is a named tuple class."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def type_text(annotation: Any, declare: Callable[[Any], str] | None = None) -> str:
    """Return the type as text. Raises NotImplementedError if TorchScript lacks it.

    `declare` writes a named tuple class into the archive and returns its name.
    """
    if isinstance(annotation, type) and issubclass(annotation, Tensor):
        return "Tensor"
    if isinstance(annotation, (type, type(None))) and annotation in _PLAIN or annotation is Any:
        return _PLAIN[annotation]
    if declare is not None and is_named_tuple(annotation):
        return declare(annotation)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inner if a is not type(None)]
        if len(rest) == 1 and len(inner) == 2:
            return f"Optional[{type_text(rest[0], declare)}]"
        return f"Union[{', '.join(type_text(a, declare) for a in inner)}]"
    if origin in (list, tuple, dict) and inner and ... not in inner:
        name = {list: "List", tuple: "Tuple", dict: "Dict"}[origin]
        return f"{name}[{', '.join(type_text(a, declare) for a in inner)}]"
    raise NotImplementedError(f"the type {annotation}")


def type_of_value(value: Any) -> str:
    """Infer the type of an attribute from its value."""
    if isinstance(value, Tensor):
        return "Tensor"
    if type(value) in _PLAIN:
        return _PLAIN[type(value)]
    if isinstance(value, (list, dict)) and value:
        if isinstance(value, list):
            return f"List[{type_of_value(value[0])}]"
        key, item = next(iter(value.items()))
        return f"Dict[{type_of_value(key)}, {type_of_value(item)}]"
    if isinstance(value, tuple) and value:
        return f"Tuple[{', '.join(map(type_of_value, value))}]"
    raise NotImplementedError(f"an attribute of type {type(value).__name__} without annotation")
