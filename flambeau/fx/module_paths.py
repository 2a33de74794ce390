"""Attributes of modules by their paths."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor

__all__ = ["assign_attribute", "attribute_at", "copy_attribute", "delete_attribute",
           "has_attribute"]


def attribute_at(module: Any, path: str) -> Any:
    """The attribute at a path; the module itself for an empty one."""
    for part in path.split(".") if path else ():
        if not hasattr(module, part):
            raise AttributeError(f"Attribute '{part}' not found in model")
        module = getattr(module, part)
    return module


def has_attribute(module: Any, path: str) -> bool:
    """Whether there is an attribute at a path."""
    try:
        attribute_at(module, path)
    except AttributeError:
        return False
    return True


def delete_attribute(module: Any, path: str) -> None:
    """Delete the attribute at a path."""
    above, _, name = path.rpartition(".")
    delattr(attribute_at(module, above), name)


def _set_attribute(module: Any, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def copy_attribute(source: Any, to: Any, path: str) -> None:
    """Give `to` the attribute of `source` at a path, with empty modules above it.

    Nothing happens where the two share a module above it. Tensors become buffers.
    """
    *above, name = path.split(".")
    for part in above:
        outer, inner = getattr(source, part), getattr(to, part, None)
        if outer is inner:
            return
        if inner is None:
            inner = Module()
            setattr(to, part, inner)
        source, to = outer, inner
    _set_attribute(to, name, getattr(source, name))


def assign_attribute(value: Any, to: Any, path: str) -> None:
    """Set the attribute at a path, with empty modules above it. Tensors become buffers."""
    *above, name = path.split(".")
    for part in above:
        inner = getattr(to, part, None)
        if inner is None:
            inner = Module()
            setattr(to, part, inner)
        to = inner
    _set_attribute(to, name, value)
