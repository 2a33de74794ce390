"""New memory: as it comes, or filled where deterministic algorithms ask for it.

With `torch.use_deterministic_algorithms(True)`, and unless
`torch.utils.deterministic.fill_uninitialized_memory` is off, floating dtypes are filled with NaN
and integers with their largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .dtypes import FROM_NUMPY, iinfo


class Filling:
    """Whether new memory is filled: both settings have to be on."""

    deterministic = False
    wanted = True


def fills() -> bool:
    """Whether new memory is to be filled."""
    return Filling.deterministic and Filling.wanted


def fill_new(array: np.ndarray) -> np.ndarray:
    """The array, marked as uninitialised memory is."""
    kind = FROM_NUMPY[array.dtype]
    if kind.is_floating_point or kind.is_complex:
        array[...] = np.nan
    else:
        array[...] = True if array.dtype == np.bool_ else iinfo(kind).max
    return array


def new_memory(shape: Sequence[int] | int, dtype: np.dtype) -> np.ndarray:
    """An array for `torch.empty`."""
    result = np.empty(shape, dtype)
    return fill_new(result) if Filling.deterministic and Filling.wanted else result
