"""Sample inputs: the recorded call's arguments, kept to measure its program."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..trace.bindings import Argument, Bindings, ComputedNumber, RandomInput, Scalar


class SampleInputs:
    """Copies of a recorded call's arguments and of its updates' numbers."""

    def __init__(self, bindings: Bindings) -> None:
        self.values: dict[int, Any] = {}  # by slot id
        for slot, value in zip(bindings.slots, bindings.recorded, strict=True):
            if isinstance(slot, (Scalar, ComputedNumber)):
                self.values[id(slot)] = float(value)
            elif isinstance(slot, Argument):
                self.values[id(slot)] = _copy_with_strides(value)

    def value(self, slot: Any) -> Any:
        """Return a slot's value; random numbers are those of the last draw."""
        return slot.view if isinstance(slot, RandomInput) else self.values.get(id(slot))


def _copy_with_strides(array: np.ndarray) -> np.ndarray:
    """Copy an array and keep its strides, on which the program is specialized."""
    if array.flags.c_contiguous or array.size == 0:
        return array.copy()
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    memory = np.zeros(span + array.itemsize, np.uint8)
    result = np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
    result[...] = array
    return result
