"""Regions: memory as values. One node holds a region's elements; windows on it are read or written.

Reading a window is a chain of movement nodes on the region's current value, and writing one creates
a new value, so graph builders need not handle views or in-place writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import graph
from ..ir.axis_order import invert_permutation
from ..ir.graph import Node, Op
from ..ir.strided_view import compute_row_major_strides
from ..lowering.numpy.node_builders import (
    bitcast, broadcast_to, cast, literal, number, reshape_node, type_of,
)
from ..lowering.registry import Untraceable
from ..trace.trace import Value

Axis = tuple[int, int]  # (extent, stride in bytes)


@dataclass(eq=False)
class Region:
    """Bytes [low, high) of a storage: axes in memory order, and the current value."""

    storage: int
    offset: int  # of its first element, in bytes
    axes: tuple[Axis, ...]
    dtype: np.dtype
    node: Node | None = None  # None: not yet written
    written: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents in memory order."""
        return tuple(n for n, _ in self.axes)

    @property
    def value(self) -> Node:
        """The current elements; zeros if nothing was written."""
        if self.node is None:
            self.node = broadcast_to(number(0, type_of(self.dtype)), self.shape)
        return self.node

    def read(self, window: Value) -> Node:
        """Return the value of a window on the region."""
        if 0 in window.shape:
            return broadcast_to(number(0, type_of(window.dtype)), window.shape)
        if window.dtype != self.dtype:
            return self._read_as(window)
        if self._covers_all(window):
            return reshape_node(self.value, window.shape)
        result = locate_window(self.axes, window.offset - self.offset, window)
        if result is None:
            return self._gather(window)
        new = graph.strided_slice(
            reshape_node(self.value, result.extents), result.starts, result.steps, result.lengths
        )
        new = reshape_node(new, [result.lengths[j] for j in result.order_in_memory])
        new = graph.permute(new, result.permutation)
        shape = [1 if s == 0 else n for n, s in zip(window.shape, window.strides, strict=True)]
        return graph.expand(reshape_node(new, shape), window.shape)

    def write(self, window: Value, node: Node) -> None:
        """Write `node`, broadcast and cast, to the window."""
        if 0 in window.shape:
            self.written = True
            return
        if window.dtype != self.dtype:
            if window.dtype.itemsize != self.dtype.itemsize:
                raise Untraceable("memory is written with a different element size")
            node = bitcast(cast(node, type_of(window.dtype)), type_of(self.dtype))
        node = broadcast_to(cast(node, type_of(self.dtype)), window.shape)
        self.written = True
        if any(s == 0 and n > 1 for n, s in zip(window.shape, window.strides, strict=True)):
            raise Untraceable("it writes to a view whose elements overlap")
        if self._covers_all(window):
            self.node = reshape_node(node, self.shape)
            return
        result = locate_window(self.axes, window.offset - self.offset, window)
        if result is None:
            self._scatter(window, node)
            return
        extents = [n for n in window.shape if n != 1]
        node = graph.permute(reshape_node(node, extents), invert_permutation(result.permutation))
        node = reshape_node(node, result.lengths)
        if result.lengths == result.extents and all(s == 1 for s in result.steps):
            self.node = reshape_node(node, self.shape)
            return
        base = reshape_node(self.value, result.extents)
        new = Node(Op.UPDATE, (base, node), base.shape, base.type,
                   {"starts": result.starts, "steps": result.steps})
        self.node = reshape_node(new, self.shape)

    def _covers_all(self, window: Value) -> bool:
        """Whether a window is the whole region, with its axes in memory order."""
        return window.offset == self.offset and self.axes == tuple(
            [axis for axis in zip(window.shape, window.strides, strict=True) if axis[0] != 1]
        )

    # -------------------------------------------------------------- what strides cannot say

    def _read_as(self, window: Value) -> Node:
        if window.dtype.itemsize != self.dtype.itemsize:
            raise Untraceable("memory is read with a different element size")
        same = Value(window.storage, window.offset, window.shape, window.strides, self.dtype)
        return bitcast(self.read(same), type_of(window.dtype))

    def _compute_positions(self, window: Value) -> np.ndarray:
        """Return the index in the region of each element of a window."""
        here = np.sort(
            compute_window_offsets(self.shape, [s for _, s in self.axes], self.offset).reshape(-1)
        )
        offsets = compute_window_offsets(window.shape, window.strides, window.offset)
        result = np.searchsorted(here, offsets)
        if not np.array_equal(here[np.minimum(result, here.size - 1)], offsets):
            raise Untraceable("a view reaches beyond known memory")
        return result

    def _gather(self, window: Value) -> Node:
        positions = literal(self._compute_positions(window).astype(np.int64))
        flat = reshape_node(self.value, (-1,))
        return Node(Op.TAKE, (flat, positions), window.shape, flat.type)

    def _scatter(self, window: Value, node: Node) -> None:
        size = math.prod(self.shape)
        sources = np.arange(size)
        sources[self._compute_positions(window).reshape(-1)] = size + np.arange(window.size)
        both = graph.concat((reshape_node(self.value, (-1,)), reshape_node(node, (-1,))), 0)
        flat = Node(Op.TAKE, (both, literal(sources)), (size,), both.type)
        self.node = reshape_node(flat, self.shape)


def compute_window_offsets(shape: Sequence[int], strides: Sequence[int], start: int) -> np.ndarray:
    """Return the byte offset of each element."""
    result = np.full(tuple(shape), start, np.int64)
    for axis, (n, s) in enumerate(zip(shape, strides, strict=True)):
        ends = [1] * len(shape)
        ends[axis] = n
        result += (np.arange(n) * s).reshape(ends)
    return result


# ------------------------------------------------------------------------------- placing


@dataclass(frozen=True)
class RegionSlice:
    """A window's location: the region's axes split into `extents`, and a range of each."""

    extents: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    lengths: tuple[int, ...]
    order_in_memory: tuple[int, ...]  # the split axes along which the window's wide axes lie
    permutation: tuple[int, ...]  # from that order to the window's order


def locate_window(axes: Sequence[Axis], offset: int, window: Value) -> RegionSlice | None:
    """Return the window as ranges of axes; None if that is impossible."""
    wide = [(n, s) for n, s in zip(window.shape, window.strides, strict=True) if n != 1 and s]
    strides = [s for n, s in axes if n != 1]
    seen = [abs(s) for _, s in wide]
    for cuts in (seen, strides + seen, strides):
        result = _place_in_axes(_cut_axes(axes, cuts), offset, wide)
        if result is not None:
            return result
    return None


def _cut_axes(axes: Sequence[Axis], cuts: Sequence[int]) -> list[Axis]:
    """Merge axes as far as possible, then split them at strides."""
    merged: list[Axis] = []
    for n, s in axes:
        if n == 1:
            continue
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    for cut in sorted(set(cuts), reverse=True):
        for i, (n, s) in enumerate(merged):
            if s < cut < s * n and cut % s == 0 and n % (cut // s) == 0:
                merged[i : i + 1] = [(n * s // cut, cut), (cut // s, s)]
                break
    return merged


def _place_in_axes(axes: list[Axis], offset: int, wide: list[Axis]) -> RegionSlice | None:
    starts = []
    for n, s in axes:
        digit = min(offset // s, n - 1) if offset >= 0 else 0
        starts.append(digit)
        offset -= digit * s
    if offset:
        return None
    steps, lengths = [1] * len(axes), [1] * len(axes)
    matched: list[int] = []
    for n, stride in wide:
        fitting = [
            j for j, (extent, s) in enumerate(axes)
            if abs(stride) >= s and abs(stride) % s == 0 and j not in matched
            and 0 <= starts[j] + (n - 1) * stride // s < extent
        ]
        if not fitting:
            return None
        j = min(fitting, key=lambda j: abs(stride) // axes[j][1])
        matched.append(j)
        steps[j], lengths[j] = stride // axes[j][1], n
    order = tuple(sorted(matched))
    extents = tuple(n for n, _ in axes)
    permutation = tuple(order.index(j) for j in matched)
    return RegionSlice(extents, tuple(starts), tuple(steps), tuple(lengths), order, permutation)


# ---------------------------------------------------------------------------- partition


def partition(windows: Sequence[Value], owner: Value | None = None) -> list[Region]:
    """Return the disjoint regions of a storage that contain its windows.

    `owner`: the whole storage as an array, if its dtype matters.
    """
    spans = sorted({w.span for w in windows})
    filled = [(low, high) for low, high in spans if low < high]
    spans = [(low, high) for low, high in spans
             if low < high or not any(start <= low <= end for start, end in filled)]
    joined: list[list[int]] = []
    for low, high in spans:
        if joined and (low < joined[-1][1] or (low, high) == tuple(joined[-1])):
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    regions = []
    for low, high in joined:
        inside = [w for w in windows if low <= w.span[0] and w.span[1] <= high
                  and (w.span[0] < w.span[1] or low == high)]
        regions.append(_make_region(inside, low, high, owner))
    return regions


def _make_region(windows: list[Value], low: int, high: int, owner: Value | None) -> Region:
    first = windows[0]
    if low == high:
        return Region(first.storage, low, tuple((n, 1) for n in first.shape), first.dtype)
    candidates = [w for w in windows if w.dtype == first.dtype]
    if owner is not None and owner.dtype == first.dtype and owner.span == (low, high):
        candidates.append(owner)
    item = first.dtype.itemsize
    for window in candidates:
        axes = order_by_stride(window)
        if axes is not None and window.size * item == high - low:
            return Region(first.storage, low, axes, first.dtype)
    distinct = {(w.offset, w.shape, w.strides) for w in windows}
    axes = order_by_stride(first)
    if len(distinct) == 1 and axes is not None:
        return Region(first.storage, low, axes, first.dtype)  # with gaps between its elements
    if (high - low) % item:
        raise Untraceable("memory is viewed with different element sizes")
    return Region(first.storage, low, (((high - low) // item, item),), first.dtype)


def order_by_stride(window: Value) -> tuple[Axis, ...] | None:
    """Return a window's axes by decreasing stride; None if overlapping or reversed."""
    axes = [(n, s) for n, s in zip(window.shape, window.strides, strict=True) if n != 1]
    if any(s <= 0 for _, s in axes):
        return None
    axes.sort(key=lambda axis: -axis[1])
    for (_, outer), (n, s) in zip(axes, axes[1:], strict=False):
        if outer < n * s:
            return None
    return tuple(axes)


def compute_byte_strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Return the byte strides of a contiguous array with `item` bytes per element."""
    return tuple(item * stride for stride in compute_row_major_strides(shape))
