"""Exposed memory: memory that NumPy arrays or buffers can write to without flambeau's knowledge.

A traced call is computed later than Python requests it, so it must know which inputs may change in
the meantime.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import numpy as np

from ..native.foundation.user_frames import add_notes
from .layout import find_owner

EXPOSED: dict[int, Any] = {}  # weak references to owners, by id
_BY_ADDRESS: set[int] = set()  # ids of those of which others only know where they lie


class PrivateBlock(bytearray):
    """Memory of which several arrays own a part each, and which nothing but flambeau sees."""


def expose(array: np.ndarray, by_address: bool = False) -> None:
    """Record that the memory of an array has been exposed. `by_address`: nothing keeps it alive,
    so a tensor may still move to larger memory."""
    owner = find_owner(array)
    key = id(owner)
    if key not in EXPOSED:
        EXPOSED[key] = weakref.ref(owner, lambda _: _forget(key))
        if by_address:
            _BY_ADDRESS.add(key)
    elif not by_address:
        _BY_ADDRESS.discard(key)


def _forget(key: int) -> None:
    EXPOSED.pop(key, None)
    _BY_ADDRESS.discard(key)


def is_exposed(owner: np.ndarray) -> bool:
    """Return whether others may write to an owner's memory."""
    base: Any = owner.base
    return (base is not None and base.__class__ is not PrivateBlock) or id(owner) in EXPOSED


def is_fixed(owner: np.ndarray) -> bool:
    """Return whether others hold an owner's memory, so that it cannot be replaced."""
    return is_exposed(owner) and id(owner) not in _BY_ADDRESS


def check_resizable(array: np.ndarray, count: int) -> None:
    """RuntimeError if `count` elements need larger memory than the array's, which others see: a
    tensor with new memory would silently part from them."""
    if not isinstance(array, np.ndarray):
        return
    memory = find_owner(array)
    if count * array.itemsize > memory.nbytes and is_fixed(memory):
        raise_not_resizable()


def raise_not_resizable() -> NoReturn:
    """RuntimeError for memory that cannot grow, as others see it."""
    raise add_notes(RuntimeError("Trying to resize storage that is not resizable"),
                    "A NumPy array or another library sees this memory. clone() has its own.")


def is_any_exposed(owners: set[int]) -> bool:
    """Return whether any of the owners, given by id, has exposed memory."""
    return not EXPOSED.keys().isdisjoint(owners)
