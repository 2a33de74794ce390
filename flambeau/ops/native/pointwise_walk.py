"""How a pointwise kernel walks its operands: where each lies relative to the result.

Adjacent axes are merged where every operand walks them as one. What is left tells the kernel's
form: one axis, rows of columns, or a grid of three axes on which operands have strides of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...native.target.eager_costs import MIN_STRIDED_ROW_ELEMENTS
from ...tensor.layout import is_dense_in_order

_GRID_AXES = ("outer", "row", "column")
_GRID_LAYOUTS = ("repeated", "spread", "second")  # by the stride along a row
_Strides = tuple[int, ...]  # of an operand, in elements; 0 along axes on which it is broadcast
Place = tuple[tuple[int, ...], tuple[int, ...], np.dtype]  # shape, strides in bytes, dtype


class Walk(NamedTuple):
    """A kernel's form for some operands."""

    layouts: tuple[tuple[np.dtype, str], ...]  # of each operand
    sizes: tuple[int, ...]  # the kernel's size arguments
    full: int | None  # the first operand of the result's shape
    in_order: bool  # whether the result is contiguous, not in the order of axes of `full`


@lru_cache(4096)
def plan_walk(shape: tuple[int, ...], places: tuple[Place, ...]) -> Walk | None:
    """Choose the form for operands and a result of `shape`, which lies in memory as the first
    operand of its shape does; None if that has gaps in another order, or there are too many axes.
    """
    strides = [_broadcast_strides(place, shape) for place in places]
    if None in strides or 0 in shape:
        return None
    full = next((n for n, place in enumerate(places) if place[0] == shape), None)
    order = list(range(len(shape))) if full is None else _order_axes(places[full])
    extents, walked = _merge_axes(
        [shape[k] for k in order], [tuple([s[k] for k in order]) for s in strides if s is not None]
    )
    described = _describe(extents, walked)
    if described is None:
        return None
    layouts, sizes = described
    kinds = [dtype for _, _, dtype in places]
    return Walk(tuple(zip(kinds, layouts, strict=True)), tuple(sizes), full,
                order == list(range(len(shape))))


def _broadcast_strides(place: Place, shape: tuple[int, ...]) -> _Strides | None:
    """An operand's strides along the result's axes; None if it does not broadcast or lies askew."""
    own_shape, own_strides, dtype = place
    missing, size = len(shape) - len(own_shape), dtype.itemsize
    if missing < 0 or any(step % size for step in own_strides):
        return None
    steps = [0] * missing
    for extent, length, step in zip(own_shape, shape[missing:], own_strides, strict=True):
        if extent not in (1, length):
            return None
        steps.append(0 if extent == 1 else step // size)
    return tuple(steps)


def _order_axes(place: Place) -> list[int]:
    """The axes from the outermost in memory on, if the array has no gaps; else as they come."""
    shape, strides, dtype = place
    as_they_come = list(range(len(shape)))
    order = sorted(as_they_come, key=strides.__getitem__, reverse=True)
    steps = [step // dtype.itemsize for step in strides]
    return order if is_dense_in_order(shape, steps, order) else as_they_come


def _merge_axes(
    extents: Sequence[int], walked: Sequence[_Strides]
) -> tuple[list[int], list[_Strides]]:
    """Drop axes of one element, and join neighbors that every operand walks as one."""
    merged: list[int] = []
    steps_by_axis: list[list[int]] = []
    for k, extent in enumerate(extents):
        steps = [s[k] for s in walked]
        if extent == 1:
            continue
        if merged and all(a == b * extent
                          for a, b in zip(steps_by_axis[-1], steps, strict=True)):
            merged[-1] *= extent
            steps_by_axis[-1] = steps
        else:
            merged.append(extent)
            steps_by_axis.append(steps)
    return merged, [tuple([steps[n] for steps in steps_by_axis]) for n in range(len(walked))]


def _describe(
    extents: list[int], walked: list[_Strides]
) -> tuple[list[str], list[int]] | None:
    """Each operand's layout and the kernel's sizes; None if no form fits."""
    plain = {(0,) * len(extents): "number"}
    if len(extents) < 2:
        extents = extents or [1]
        plain[(1,)] = "full"
    elif len(extents) == 2:
        plain |= {(extents[1], 1): "full", (0, 1): "row", (1, 0): "column"}
    layouts = [plain.get(steps) for steps in walked]
    if None not in layouts:
        return layouts, extents  # type: ignore[return-value]  # there is no None
    missing = len(_GRID_AXES) - len(extents)
    if missing < 0 or extents[-1] < MIN_STRIDED_ROW_ELEMENTS:
        return None
    sizes = [1] * missing + extents
    sizes += [sizes[1] * sizes[2], sizes[2]]
    names = []
    for steps in walked:
        if not any(steps):
            names.append("number")
        elif 0 <= steps[-1] < len(_GRID_LAYOUTS):
            names.append(_GRID_LAYOUTS[steps[-1]])
            sizes += [*[0] * missing, *steps][:-1]
        else:
            return None
    return names, sizes
