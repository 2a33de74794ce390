"""Scans of large arrays in machine code; None until a kernel is there, and for what has none."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .copies_native import ordered
from .rows_native import LARGE, call, fits, kernel

Array = np.ndarray

_AT_ONCE = 4  # rows, as ROWS_AT_ONCE of the kernel
_FOLDS = {np.add: "SUM", np.multiply: "PRODUCT", np.maximum: "MAXIMUM", np.minimum: "MINIMUM"}


_INTEGERS = frozenset(np.dtype(n) for n in ("int32", "int64", "uint8"))


def _served(x: Array) -> bool:
    if x.dtype in _INTEGERS:
        return x.size > LARGE and x.__class__ is np.ndarray and x.flags.c_contiguous
    return fits(x)


def scanned(ufunc: Any, x: Array, axis: int, positions: bool = False) -> tuple[Array, ...] | None:
    """(ufunc.accumulate(x, axis),), and the last place of each extreme where `positions`."""
    x = ordered(x)
    if not _served(x):
        return None
    made = (np.empty(x.shape, x.dtype),)
    if positions:
        made = (*made, np.empty(x.shape, np.int64))
    done = (_along_rows if axis in (-1, x.ndim - 1) else _in_the_middle)(ufunc, x, axis, made)
    return made if done else None


def _kernel(name: str, x: Array, ufunc: Any, *settings: Any) -> int | None:
    from ..native.loops import Fold

    return kernel(name, x, Fold[_FOLDS[ufunc]], *settings)


def _along_rows(ufunc: Any, x: Array, axis: int, made: tuple[Array, ...]) -> bool:
    several, one = (_kernel("scan_rows", x, ufunc, len(made) > 1, n) for n in (_AT_ONCE, 1))
    if several is None or one is None:
        return False
    n = x.shape[-1]
    arrays = [a.reshape(-1, n) for a in (x, *made)]
    rows = len(arrays[0])
    count = rows // _AT_ONCE
    whole = count * _AT_ONCE
    if count:
        windows = [a[k:] for a in arrays for k in range(_AT_ONCE)]
        call(several, windows, count, n, _AT_ONCE * n)
    if whole < rows:
        call(one, [a[whole:] for a in arrays], rows - whole, n, n)
    return True


def _in_the_middle(ufunc: Any, x: Array, axis: int, made: tuple[Array, ...]) -> bool:
    found = _kernel("scan_middle", x, ufunc, len(made) > 1)
    if found is None:
        return False
    rows, columns = x.shape[axis], prod(x.shape[axis + 1 :])
    call(found, (x, *made), prod(x.shape[:axis]), rows, columns, rows * columns)
    return True
