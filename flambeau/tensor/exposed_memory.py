"""Exposed memory: memory that something beside tensors can write to unseen: NumPy arrays, buffers.

A followed call computes later than Python asks, so it must know which inputs may change meanwhile.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .layout import owner_of

EXPOSED: dict[int, Any] = {}  # weak references to owners, by id


def expose(array: np.ndarray) -> None:
    """Notes that the memory of an array is, or was, handed to others."""
    owner = owner_of(array)
    key = id(owner)
    if key not in EXPOSED:
        EXPOSED[key] = weakref.ref(owner, lambda _: EXPOSED.pop(key, None))


def is_exposed(owner: np.ndarray) -> bool:
    """Whether others may write to the memory of an array that owns it."""
    return owner.base is not None or id(owner) in EXPOSED


def any_exposed(owners: set[int]) -> bool:
    """Whether others may write to, or see, the memory of one of some owners, by their ids."""
    return not EXPOSED.keys().isdisjoint(owners)
