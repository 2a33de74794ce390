"""Marks functions that make arrays from shapes and settings alone.

A compiled step keeps such arrays as constants. Memory that came about in any other unrecorded way
makes the step eager.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TypeVar

F = TypeVar("F", bound=Callable)

SHAPE_ONLY: set[CodeType] = set()  # of the functions that are marked
# In a module's globals: arrays that its functions hand to operators come from shapes alone.
MODULE_MARK = "ARRAYS_COME_FROM_SHAPES"


def shape_only(function: F) -> F:
    """Marks a function whose new arrays depend on no values of tensors."""
    SHAPE_ONLY.add(function.__code__)
    return function
