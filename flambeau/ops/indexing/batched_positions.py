"""vmap rules of the operators in `index.py`, for positions that all examples share: index the axes
after the batch axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.operator import Positions
from .index import copy_values, gather_at, put_at_positions, scatter_at


@gather_at.batch
def _(batch: Batch, input: Tensor, where: Positions) -> Tensor:
    y = gather_at(batch.lower(input), (slice(None), *where))
    return y.movedim(_count_axes_in_front(where), 0)


@scatter_at.batch
def _(batch: Batch, g: Tensor, shape: Any, where: Positions) -> Tensor:
    placed = batch.lower(g).movedim(0, _count_axes_in_front(where))
    return scatter_at(placed, (batch.size, *shape), (slice(None), *where))


@put_at_positions.batch
def _(
    batch: Batch, input: Tensor, values: Tensor, where: Positions, accumulate: bool
) -> Tensor:
    indexed = sum(w.ndim if w.dtype == np.bool_ else 1 for w in where if w.__class__ is np.ndarray)
    rank = input.dim() - indexed + _count_position_axes(where)
    source = batch.lower(values)
    if batch.holds(values):
        source = batch.view(values, *[1] * (rank - values.dim()))
        source = source.movedim(0, _count_axes_in_front(where))
    elif (front := _count_axes_in_front(where)) and values.dim() > rank - front:
        source = source.expand(*[1] * (rank - values.dim()), *values.shape).unsqueeze(front)
    return put_at_positions(batch.expand(input), source, (slice(None), *where), accumulate)


@copy_values.batch
def _(batch: Batch, input: Tensor, src: Tensor) -> Any:
    if src.dim() > input.dim():
        return NotImplemented
    source = batch.lower(src)
    if batch.holds(src) and src.dim() < input.dim():
        source = batch.view(src, *[1] * (input.dim() - src.dim()))
    return copy_values(batch.expand(input), source)


def _count_axes_in_front(index: tuple) -> int:
    """The number of index axes that NumPy moves to the front, if index arrays are not adjacent."""
    arrays = [i for i, w in enumerate(index) if isinstance(w, np.ndarray)]
    return 0 if arrays[-1] - arrays[0] == len(arrays) - 1 else _count_position_axes(index)


def _count_position_axes(index: tuple) -> int:
    """The number of axes that an index's arrays produce together."""
    return max(1 if w.dtype == np.bool_ else w.ndim for w in index if isinstance(w, np.ndarray))
