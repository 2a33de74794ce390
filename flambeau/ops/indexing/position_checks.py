"""Which positions an index may hold: inside the tensor; masks have its shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.operator import Array, Positions
from ..core.value_rules import ValueRule


def check_positions(x: Array, rest: tuple) -> None:
    """Raise IndexError for positions out of bounds or masks of the wrong shape."""
    axis = 0
    for item in rest:
        if isinstance(item, np.ndarray) and item.dtype == np.bool_:
            for k, n in enumerate(item.shape):
                if axis + k >= x.ndim or x.shape[axis + k] != n:
                    raise IndexError(
                        f"The shape of the mask {list(item.shape)} at index {k} does not match "
                        f"the shape of the indexed tensor {list(x.shape)} at index {axis + k}"
                    )
            axis += item.ndim
            continue
        if isinstance(item, np.ndarray) and axis < x.ndim:
            n = x.shape[axis]
            if item.size and (item.max() >= n or item.min() < -n):
                outside = item[(item >= n) | (item < -n)].reshape(-1)[0]
                raise IndexError(
                    f"index {outside} is out of bounds for dimension {axis} with size {n}"
                    if n else "index is out of bounds for dimension with size 0"
                )
        axis += 1
    if axis > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")


def _bound_positions(input: Any, positions: Any) -> Iterator[tuple[Any, int]]:
    axis = 0
    for item in positions:
        is_mask = getattr(item, "dtype", None) == np.bool_
        if hasattr(item, "dtype") and not is_mask and axis < len(input.shape):
            yield item, input.shape[axis]
        axis += len(item.shape) if is_mask else 1


def _takes_positions(input: Array, positions: Positions) -> bool:
    try:
        check_positions(input, positions)
    except IndexError:
        return False
    return True


def _bound_written(input: Any, values: Any, positions: Any, *_: Any) -> Iterator[tuple[Any, int]]:
    return _bound_positions(input, positions)


def _writes_at_positions(input: Array, values: Array, positions: Positions, *_: Any) -> bool:
    return _takes_positions(input, positions)


LEGAL_POSITIONS = ValueRule(("where",), _takes_positions, _bound_positions)
LEGAL_WRITTEN_POSITIONS = ValueRule(("where",), _writes_at_positions, _bound_written)
