"""Get, set and delete module attributes by dotted path."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor

__all__ = ["assign_attribute", "attribute_at", "copy_attribute", "delete_attribute",
           "has_attribute"]


def attribute_at(module: Any, path: str) -> Any:
    """Return the attribute at a path; the module itself if the path is empty."""
    for part in path.split(".") if path else ():
        if not hasattr(module, part):
            raise AttributeError(f"Attribute '{part}' not found in model")
        module = getattr(module, part)
    return module


def has_attribute(module: Any, path: str) -> bool:
    """Return whether the attribute at a path exists."""
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
    """Copy the attribute at a path from `source` to `to`, creating empty modules above it.

    Do nothing if both already share a module on the path. Tensors become buffers.
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
    """Set the attribute at a path, creating empty modules above it. Tensors become buffers."""
    *above, name = path.split(".")
    for part in above:
        inner = getattr(to, part, None)
        if inner is None:
            inner = Module()
            setattr(to, part, inner)
        to = inner
    _set_attribute(to, name, value)
