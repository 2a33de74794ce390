"""A cache of Python numbers as 0-dim arrays, which ufuncs take faster than Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_CACHED_NUMBERS

CACHED_NUMBERS: dict[Any, np.ndarray] = {}  # by (value, dtype)
ONE = np.array(1, np.float32)  # a Python 1 would double the cost of a small ufunc call
ORDINARY = float(1 << 24)  # smaller magnitudes convert to any floating dtype without a warning


def number(value: float | int, kind: np.dtype) -> np.ndarray:
    """Return a number as a read-only array of a dtype."""
    known = CACHED_NUMBERS.get((value, kind))
    return cache_number(value, kind) if known is None else known


def cache_number(value: float | int, kind: np.dtype) -> np.ndarray:
    """Return a number as an array and add it to the cache."""
    if not value:  # 0.0 and -0.0 would be one key
        return np.array(value, kind)
    with np.errstate(all="ignore"):
        result = np.array(value, kind)
    if len(CACHED_NUMBERS) < MAX_CACHED_NUMBERS:
        CACHED_NUMBERS[value, kind] = result
    return result
