"""Functions that stay Python where scripted code calls them: `torch.jit.ignore` and `unused`."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

__all__ = ["PYTHON_CODE", "leave_script"]

PYTHON_CODE: set[CodeType] = set()


def leave_script(function: Any) -> None:
    """Note that a function stays Python where scripted code calls it."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if code is not None:
        PYTHON_CODE.add(code)
