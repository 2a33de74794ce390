"""torch.jit._recursive: modules by their objects."""

from __future__ import annotations

from typing import Any

__all__ = ["wrap_cpp_module"]


def wrap_cpp_module(cpp_module: Any) -> Any:
    """Return the module that an object stands for."""
    return cpp_module._module
