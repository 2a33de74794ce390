"""Python numbers as 0-dim arrays, made once and kept: what an operator's ufunc takes beside a small
tensor."""

from __future__ import annotations

from typing import Any

import numpy as np


KEPT: dict[Any, np.ndarray] = {}  # by (value, dtype)
_MOST = 4096
ONE = np.array(1, np.float32)  # beside any floating array: a Python number costs as much again
ORDINARY = float(1 << 24)  # numbers below convert to any floating dtype without a thought


def number(value: float | int, kind: np.dtype) -> np.ndarray:
    """A number as an array of a dtype, which nobody may write to."""
    known = KEPT.get((value, kind))
    return as_number(value, kind) if known is None else known


def as_number(value: float | int, kind: np.dtype) -> np.ndarray:
    """The same, of a number that is not there yet."""
    if not value:  # 0.0 and -0.0 would be one key
        return np.array(value, kind)
    with np.errstate(all="ignore"):
        result = np.array(value, kind)
    if len(KEPT) < _MOST:
        KEPT[value, kind] = result
    return result
