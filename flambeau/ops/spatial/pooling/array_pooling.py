"""Pooling in NumPy, by tables of the elements that windows read: where no kernel is ready, or none
has the dtype. One table serves plain and adaptive windows, and the sums of their cotangents."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.operator import Array
from .pool_index_tables import combine_axes

# ------------------------------------------------------------------------------------- maxima


class _Elements(NamedTuple):
    """The elements of windows over several axes, as indices into the flattened image."""

    output: tuple[int, ...]
    table: Array  # (windows, largest window), ascending; a missing element repeats another
    is_empty: Array | None  # windows without elements, if there are any


@lru_cache(maxsize=256)
def _list_elements(axes: Callable, *settings: object) -> _Elements:
    reaches = axes(*settings)
    lengths = [reach.length for reach in reaches]
    table = combine_axes([reach.indices for reach in reaches], lengths)
    first = combine_axes([reach.first[:, None] for reach in reaches], lengths)
    repeated = np.maximum.accumulate(table, 1)
    is_empty = repeated[:, -1] < 0
    return _Elements(tuple([len(reach.starts) for reach in reaches]),
                     np.where(repeated < 0, first, repeated), is_empty if is_empty.any() else None)


def find_maxima(x: Array, n: int, axes: Callable, *settings: object) -> tuple[Array, Array]:
    """Return the maxima of windows over the last n axes, and their flat indices.

    Of equal elements the first is taken, of NaNs the last. `axes(*settings)` gives the Reach of
    each axis. The maximum of an empty window is the lowest number, at the index where it begins.
    """
    windows = _list_elements(axes, *settings)
    flat = x.reshape(*x.shape[:-n], prod(x.shape[-n:]))
    parts = flat.take(windows.table, -1, mode="clip")
    best = parts.argmax(-1)
    if x.dtype.kind in "fV" and (is_nan := parts != parts).any():
        last = parts.shape[-1] - 1 - is_nan[..., ::-1].argmax(-1)
        best = np.where(is_nan.any(-1), last, best)
    y = np.take_along_axis(parts, best[..., None], -1)
    if windows.is_empty is not None:
        y[..., windows.is_empty, 0] = find_lowest(x.dtype)
    indices = windows.table[np.arange(len(windows.table)), best]
    shape = (*x.shape[:-n], *windows.output)
    return y.reshape(shape), indices.reshape(shape)


def find_lowest(kind: np.dtype) -> float:
    """Return the lowest number of a dtype."""
    return -np.inf if kind.kind in "fV" else int(np.iinfo(kind).min)


# --------------------------------------------------------------------------------------- sums


Elements = slice | Array  # one element of each window along an axis


def _index(positions: Array) -> Elements:
    """Return positions as a slice if they are evenly spaced."""
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    start, end = int(positions[0]), int(positions[-1]) + 1
    if step > 0 and np.array_equal(positions, np.arange(start, end, step)):
        return slice(start, end, step)
    return positions


@lru_cache(maxsize=256)
def _list_summands(
    axes: Callable, *settings: object
) -> list[list[tuple[Elements, Array | None]]]:
    """Return, for each axis, the first, second, ... elements of its windows, and which windows have
    no such element."""
    return [
        [(np.maximum(column, 0), column < 0) if (column < 0).any() else (_index(column), None)
         for column in reach.indices.T]
        for reach in axes(*settings)
    ]


def sum_windows(x: Array, n: int, axes: Callable, *settings: object) -> Array:
    """Return the sums of windows over the last n axes, one axis after the other.

    A window sees only its own elements: NaN and infinity elsewhere leave it alone.
    """
    for axis, summands in enumerate(_list_summands(axes, *settings), -n):
        behind: Any = (slice(None),) * (-axis - 1)
        parts = [x[(..., index, *behind)] for index, _ in summands]
        for part, (_, missing) in zip(parts, summands, strict=True):
            if missing is not None:
                part[(..., missing, *behind)] = 0
        x = np.add(parts[0], parts[1]) if len(parts) > 1 else parts[0].copy()
        for part in parts[2:]:
            np.add(x, part, out=x)
    return np.add(x, 0, out=x) if x.dtype.kind == "f" else x  # never -0.0
