"""Machine code for many random numbers at once: the array code's bits, made sooner.

`native` gives None until a kernel is there: array code goes on then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..native.eager import kernel_asked_for
from ..native.invoke import Calls

if TYPE_CHECKING:
    from ..native.loops import Kernel

LARGE = 1 << 13  # elements or words up to which array code is as fast
_BLOCK, _GROUP = 624, 8  # as in native/kernels/random.py
_ready: dict[tuple, int] = {}  # addresses by the name and the dtype


def native(name: str, dtype: np.dtype | None = None) -> int | None:
    """The address of a kernel of native/kernels/random.py."""
    key = (name, dtype)
    found = _ready.get(key)
    if found is not None:
        return found

    def build() -> Kernel:
        from ..native.kernels import random as kernels
        from ..native.loops import Type

        make: Callable[..., Kernel] = getattr(kernels, name)
        return make() if dtype is None else make(Type(dtype.name))

    function = kernel_asked_for(("random", *key), build, exact=True)
    if function is None:
        return None
    made = _ready[key] = function.address
    return made


def twist(key: int, words: np.ndarray) -> bool:
    """Fills words with whole blocks, and renews the twister's state at an address."""
    if words.size < LARGE:
        return False
    found = native("twist")
    if found is not None:
        groups, rest = divmod(words.size, _GROUP * _BLOCK)
        Calls.alone(found, key, words, words[groups * _GROUP * _BLOCK :], groups, rest // _BLOCK)
    return found is not None


def converter(
    name: str, dtype: np.dtype, count: int, *numbers: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """convert(words, elements) by a kernel with these numbers, or None for now.

    Words and elements are contiguous.
    """
    found = native(name, dtype) if count >= LARGE else None
    if found is None:
        return None

    def convert(words: np.ndarray, elements: np.ndarray) -> None:
        Calls.alone(found, words, *numbers, elements, elements.size)

    return convert
