"""Axis orders: the inverse of a permutation, and the order of axes in memory."""

from __future__ import annotations

from collections.abc import Sequence


def invert_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `axes`."""
    result = [0] * len(axes)
    for new, old in enumerate(axes):
        result[old] = new
    return tuple(result)


def order_axes(strides: Sequence[int]) -> list[int]:
    """The axes from outermost to innermost in memory; axes of equal stride keep their order."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])
