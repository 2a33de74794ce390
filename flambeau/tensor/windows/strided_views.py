"""Views of an array's memory with strides that NumPy's own views do not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .lazy_window import LazyWindow


def set_strides(array: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return a view that starts where `array` does, with this shape and strides in bytes."""
    if array.__class__ is LazyWindow:
        return array.like(set_strides(array.memory, shape, strides))
    if array.flags.c_contiguous and array.dtype.kind != "V" and array.size:
        return np.ndarray(shape, array.dtype, array, 0, strides)  # a tenth of as_strided's time
    if array.dtype.isbuiltin == 1:
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    raw = array.view(f"V{array.itemsize}")  # NumPy cannot describe narrow floats by their names
    return np.lib.stride_tricks.as_strided(raw, shape, strides).view(array.dtype)


def compute_extent_bytes(array: Any, axis: int) -> int:
    """Return the bytes over which an axis extends, which is the stride of a new axis before it;
    beyond the last axis the size of an element."""
    return array.shape[axis] * array.strides[axis] if axis < array.ndim else array.itemsize
