"""Marks on names whose behavior PyTorch promises to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["compatibility"]

_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}
_Marked = TypeVar("_Marked")


def compatibility(is_backward_compatible: bool) -> Callable[[_Marked], _Marked]:
    """Return a decorator that records whether an object stays stable between releases."""

    def mark(fn: _Marked) -> _Marked:
        _MARKED_WITH_COMPATIBILITY.setdefault(fn)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn)
        return fn

    return mark
