"""torch._VF: the functions of torch that are written in C++ there, by the names that PyTorch's
Python calls them by."""

from __future__ import annotations

from typing import Any

from . import ops


def __getattr__(name: str) -> Any:
    function = ops.PUBLIC["torch"].get(name)
    if function is None:
        raise AttributeError(f"module 'torch._VF' has no attribute '{name}'")
    return function
