"""What the library tells a recording of its own functions: which arrays come from shapes and
settings alone, and which reads of values decide nothing.

A compiled step keeps arrays from shapes as constants. Memory that came about in any other
unrecorded way, and values that Python reads, make the step eager.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from .tensor import Tensor

F = TypeVar("F", bound=Callable)

SHAPE_ONLY: set[CodeType] = set()  # of the functions that are marked
# In a module's globals: arrays that its functions hand to operators come from shapes alone.
MODULE_MARK = "ARRAYS_COME_FROM_SHAPES"


def shape_only(function: F) -> F:
    """Mark a function whose new arrays depend on no values of tensors."""
    SHAPE_ONLY.add(function.__code__)
    return function


def peek(x: Tensor) -> np.ndarray:
    """The values of x. What is done must not depend on them, but for an error that is raised."""
    return x._array


def holds(x: Tensor, condition: Callable[[np.ndarray], Any]) -> bool:
    """Whether the values of x fulfil a condition, without which the caller raises an error.

    A compiled step checks it too: it runs eagerly where it does not hold. `condition` is a function
    of the library, on arrays and on symbols of arrays.
    """
    return bool(condition(x._array))


def all_hold(values: np.ndarray) -> Any:
    """Whether all bools are True."""
    return np.all(values)
