"""Deterministic algorithms: new memory that is filled, and alerts of operators that lack one.

With `torch.use_deterministic_algorithms(True)`, and unless
`torch.utils.deterministic.fill_uninitialized_memory` is off, floating dtypes are filled with NaN
and integers with their largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..native.foundation.allocation import allocate
from ..native.foundation.user_frames import warn
from .dtypes import FROM_NUMPY, iinfo


class Determinism:
    """The mode of `torch.use_deterministic_algorithms`: "default", "warn" or "error"."""

    mode = "default"


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
    result = allocate(shape, dtype)
    return fill_new(result) if Filling.deterministic and Filling.enabled else result


def alert_not_deterministic(operator: str) -> None:
    """Raise RuntimeError, or warn, if determinism was requested: `operator` is PyTorch's name of
    an algorithm whose result depends on the order of writes.

    https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
    """
    if Determinism.mode == "default":
        return
    if Determinism.mode == "warn":
        warn(
            f"{operator} does not have a deterministic implementation, but you set "
            "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at "
            "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
            "support for this operation."
        )
        return
    raise RuntimeError(
        f"{operator} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
        "operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
        "application. You can also file an issue at https://github.com/pytorch/pytorch/issues to "
        "help us prioritize adding deterministic support for this operation."
    )
