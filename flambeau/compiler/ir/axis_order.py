"""Orders of axes: the permutation that undoes another, and the order in which memory has axes."""

from __future__ import annotations

from collections.abc import Sequence


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `axes`."""
    result = [0] * len(axes)
    for new, old in enumerate(axes):
        result[old] = new
    return tuple(result)


def memory_order(strides: Sequence[int]) -> list[int]:
    """The axes from the outermost to the innermost in memory; equal strides keep their order."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])
