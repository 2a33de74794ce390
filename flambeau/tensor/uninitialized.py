"""New memory: uninitialized, or filled for deterministic algorithms.

With `torch.use_deterministic_algorithms(True)`, and unless
`torch.utils.deterministic.fill_uninitialized_memory` is off, floating dtypes are filled with NaN
and integers with their largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import FROM_NUMPY, iinfo


class Filling:
    """The two settings; new memory is filled if both are on."""

    deterministic = False
    enabled = True


def should_fill() -> bool:
    """Return whether to fill new memory."""
    return Filling.deterministic and Filling.enabled


def fill_new(array: np.ndarray) -> np.ndarray:
    """Fill an array in place with NaN or its dtype's largest value; return it."""
    kind = FROM_NUMPY[array.dtype]
    if kind.is_floating_point or kind.is_complex:
        array[...] = np.nan
    else:
        array[...] = True if array.dtype == np.bool_ else iinfo(kind).max
    return array


def new_memory(shape: Sequence[int] | int, dtype: np.dtype) -> np.ndarray:
    """Return a new array for `torch.empty`."""
    result = np.empty(shape, dtype)
    return fill_new(result) if Filling.deterministic and Filling.enabled else result
