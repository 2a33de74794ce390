"""Tables of pooling windows, read by the pooling kernels.

Along an axis, a window has a start, a number of elements, and a distance between them. Tables are
cached and read-only, since images of the same size recur.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....native.target.cost_model import MAX_POOL_ROW_ELEMENTS, MAX_POOL_WINDOW_EXTENT
from ....native.target.eager_costs import lanes_of
from ...core.operator import Array

if TYPE_CHECKING:
    from ..conv_reference import Window


class Reach(NamedTuple):
    """Windows along an axis of `length` elements; they may extend beyond both ends."""

    length: int
    starts: Array
    counts: Array
    apart: int

    @property
    def indices(self) -> Array:
        """Return the elements of each window (windows, largest window); -1 for missing ones."""
        j = np.arange(int(self.counts.max()))
        positions = self.starts[:, None] + j * self.apart
        is_valid = (j < self.counts[:, None]) & (positions >= 0) & (positions < self.length)
        return np.where(is_valid, positions, -1)

    @property
    def first(self) -> Array:
        """Return where each window begins, from the axis' first element on."""
        return self.starts - np.minimum(self.starts, 0) // self.apart * self.apart

    @property
    def step(self) -> int | None:
        """The distance between windows of equal size: 1 or 2, else None."""
        steps = np.diff(self.starts)
        if (self.counts != self.counts[0]).any() or (len(steps) and (steps != steps[0]).any()):
            return None
        step = int(steps[0]) if len(steps) else 1
        return step if step in (1, 2) else None


class Rows(NamedTuple):
    """Tables for kernels with rows innermost (see native/kernels/pool.py), and their sizes."""

    output: tuple[int, ...]
    step: int | None
    tables: tuple[Array, Array, Array, Array]
    blocks: int
    block: int
    cells: int
    window: int
    apart: int
    whole: bool  # whether no window is empty

    @property
    def form(self) -> tuple[int, int, int]:
        """The number of blocks, their columns, and the room for them."""
        return (self.blocks, self.block, self.tables[2].shape[1])


class Pixels(NamedTuple):
    """Tables for channels-last kernels (see native/kernels/pool_nhwc.py), in pixels."""

    output: tuple[int, ...]
    rows: Array
    columns: Array
    whole: bool

    @property
    def form(self) -> tuple[int, int, int]:
        """One block of all columns."""
        return (1, self.output[-1], self.output[-1])


def list_windows(window: Window, spatial: Sequence[int]) -> tuple[Reach, ...]:
    """Return the windows of a pooling, one Reach per axis."""
    return tuple([
        Reach(n, np.arange(m) * s - lo, np.full(m, k), d)
        for n, m, k, s, (lo, _), d in zip(spatial, window.output(spatial), *window, strict=True)
    ])


def turn_tables(reach: Reach) -> Reach:
    """For each element of the axis, return the windows that contain it."""
    starts, counts = reach.starts, reach.counts
    positions = np.arange(reach.length)
    if reach.step == 1:
        k = int(counts[0])
        return Reach(len(starts), positions - starts[0] - k + 1, np.full(len(positions), k), 1)
    first = np.searchsorted(starts + counts, positions, "right")
    return Reach(len(starts), first, np.searchsorted(starts, positions, "right") - first, 1)


def list_adaptive_windows(spatial: Sequence[int], output: Sequence[int]) -> tuple[Reach, ...]:
    """Return adaptive windows."""
    result = []
    for n, m in zip(spatial, output, strict=True):
        i = np.arange(m)
        starts = i * n // m
        result.append(Reach(n, starts, -(-(i + 1) * n // m) - starts, 1))
    return tuple(result)


def combine_axes(tables: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return the flat indices of each multi-axis window's elements (windows, most elements), given
    those along each axis; -1 for missing ones."""
    result, step = np.zeros((1, 1), np.int64), 1
    for indices, size in zip(reversed(tables), reversed(sizes), strict=True):
        outer, inner = indices[:, None, :, None], result[None, :, None, :]
        pair = np.where((outer < 0) | (inner < 0), -1, outer * step + inner)
        result = pair.reshape(indices.shape[0] * result.shape[0], -1)
        step *= size
    return np.ascontiguousarray(result, np.int64)


def build_row_tables(axes: Sequence[Reach], maxima: bool) -> Rows | None:
    """Return tables for rows innermost; None if there are too many windows to hold.

    For `maxima`, padding repeats one of the window's elements.
    """
    *outer, last = axes
    rows = combine_axes([item.indices for item in outer], [item.length for item in outer])
    needs_no_check = all((table.max(1, initial=-1) >= 0).all() for table in (rows, last.indices))
    if maxima:
        last_row = rows.max(1, initial=-1, keepdims=True)
        first_row = np.where(rows < 0, last_row, rows).min(1, initial=1 << 62, keepdims=True)
        rows = np.where(rows < 0, first_row, rows)
    lanes = lanes_of(last.step)
    result = _choose_blocks(last, lanes)
    window, image = int(last.counts.max()), prod(axis.length for axis in axes)
    if result is None or max(window, rows.shape[1]) > MAX_POOL_WINDOW_EXTENT or image >= 1 << 29:
        return None
    block, first, cells = result
    padded = -(-block // lanes) * lanes
    starts, counts = (np.zeros((len(first), padded), np.int32) for _ in range(2))
    for b, begin in enumerate(first):
        part = slice(b * block, (b + 1) * block)
        size = len(last.starts[part])
        starts[b, :size] = last.starts[part] - begin
        counts[b, :size] = last.counts[part]
    row_starts = np.where(rows < 0, -1, rows * last.length)
    tables = (np.ascontiguousarray(row_starts), np.array(first, np.int64), starts, counts)
    return Rows(tuple([len(axis.starts) for axis in axes]), last.step, tables, len(first), block,
                cells, window, last.apart, needs_no_check)


def _choose_blocks(last: Reach, lanes: int) -> tuple[int, list[int], int] | None:
    """Return how many result columns a thread computes at once, where each block's input columns
    start, and how many times `lanes` columns it reads."""
    ends = last.starts + (last.counts - 1) * last.apart + 1
    m = block = len(last.starts)
    while True:
        edges = [*range(0, m, block), m]
        first = [int(last.starts[a:b].min()) for a, b in pairwise(edges)]
        reach = max(int(ends[a:b].max()) - f for (a, b), f in zip(pairwise(edges), first,
                                                                  strict=True))
        if max(reach, block) <= MAX_POOL_ROW_ELEMENTS:
            return block, first, max(1, -(-reach // lanes))
        block = block // 2 // lanes * lanes
        if not block:
            return None


def build_pixel_tables(axes: Sequence[Reach]) -> Pixels | None:
    """Return tables for channels innermost; None if windows are too large."""
    *outer, last = axes
    rows = combine_axes([item.indices for item in outer], [item.length for item in outer])
    columns = np.ascontiguousarray(last.indices, np.int64)
    if max(rows.shape[1], columns.shape[1]) > MAX_POOL_WINDOW_EXTENT:
        return None
    needs_no_check = all((table.max(1, initial=-1) >= 0).all() for table in (rows, columns))
    rows = np.where(rows < 0, -1, rows * last.length)
    return Pixels(tuple([len(axis.starts) for axis in axes]), rows, columns, needs_no_check)


@lru_cache(maxsize=512)
def load_tables(
    last: bool, maxima: bool, axes: Callable, *settings: object
) -> Rows | Pixels | None:
    """Return the tables of `axes(settings)`, cached; `last`: for channels innermost."""
    result = axes(*settings)
    return build_pixel_tables(result) if last else build_row_tables(result, maxima)


@lru_cache(maxsize=512)
def compute_divisors(kind: np.dtype, tables: tuple[int, int, int], counts: Callable,
                     *settings: object
                     ) -> tuple[Array, Array]:
    """The divisors of sums, for each row of the result and each column of its blocks.

    `counts(settings)`: the numbers for each axis, whose products are meant. `tables`: how many
    blocks there are, how many columns one has, and how many there is room for.
    """
    *outer, last = counts(*settings)
    by_row = np.ones(1)
    for item in outer:
        by_row = np.multiply.outer(by_row, item).reshape(-1)
    blocks, block, padded = tables
    by_column = np.ones((blocks, padded))
    for b in range(blocks):
        part = last[b * block : (b + 1) * block]
        by_column[b, : len(part)] = part
    return by_row.astype(kind), by_column.astype(kind)
