"""Marks that tell the compiler's capture which arrays depend only on shapes and settings, and which
reads of values do not affect control flow.

A compiled step keeps arrays from shapes as constants. Memory created in any other unrecorded way,
and values read by Python, force the step to run eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from .meta import MetaArray
from .tensor import Tensor

F = TypeVar("F", bound=Callable)

SHAPE_ONLY: set[CodeType] = set()  # code of marked functions
# Name in a module's globals: arrays that its functions pass to operators depend only on shapes.
MODULE_MARK = "ARRAYS_COME_FROM_SHAPES"


def shape_only(function: F) -> F:
    """Mark a function whose new arrays do not depend on tensor values."""
    SHAPE_ONLY.add(function.__code__)
    return function


def peek(x: Tensor) -> np.ndarray:
    """Return the values of x. The caller may only use them to decide whether to raise an error."""
    return x._array


def read_values(x: Tensor) -> np.ndarray:
    """Return the values of x to code that computes outside the operators: a compiled step computes
    them first. The caller neither writes the array nor keeps it."""
    return x._array


def may_write_arrays() -> bool:
    """Return whether a function may write a new tensor's array itself, which is faster than
    operators. False in a compiled step: captures see operators only."""
    return True


def holds(x: Tensor, condition: Callable[[np.ndarray], Any]) -> bool:
    """Return whether the values of x satisfy a condition; if not, the caller must raise an error.

    A compiled step also checks it, and runs eagerly if it fails. Meta tensors, which have no
    values, satisfy every condition. `condition` must be a library function that accepts arrays
    and symbolic arrays.
    """
    return x._array.__class__ is MetaArray or bool(condition(x._array))


def are_all_true(values: np.ndarray) -> Any:
    """Return whether all bools are True."""
    return values.all() if values.__class__ is np.ndarray else np.all(values)


def are_nonnegative(values: np.ndarray) -> Any:
    """Return whether no value is below zero; NaN and complex numbers are not."""
    return values.dtype.kind == "c" or np.all(~(values < 0))
