"""StridedView: memory as seen through movement operations, as strides and masks.

A view starts as a row-major buffer; each movement (reshape, permute, expand, slice, pad) gives
another view of the same memory, or None if strides cannot express it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from .graph import Graph, Node, Op, Shape


@dataclass(frozen=True)
class StridedView:
    """Element i is at offset + sum(strides * i); elements outside `valid` [low, high) read as 0."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0
    valid: tuple[tuple[int, int], ...] | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is masked."""
        return self.valid is None

    def apply_movement(self, node: Node) -> StridedView | None:
        """Return the view after a movement node; None if strides cannot express it."""
        return _MOVEMENTS[node.op](self, node)

    def permute(self, axes: tuple[int, ...]) -> StridedView:
        """Permute axes: axis i of the result is axis axes[i]."""
        valid = None if self.valid is None else tuple(self.valid[i] for i in axes)
        shape = tuple(self.shape[i] for i in axes)
        return StridedView(shape, tuple(self.strides[i] for i in axes), self.offset, valid)

    def expand(self, shape: Shape) -> StridedView | None:
        """Broadcast extents of 1 to `shape`."""
        strides = tuple(
            0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True)
        )
        valid = self.valid
        if valid is not None:
            stretched = [v if n == m else ((0, m) if v == (0, 1) else (0, 0))
                         for v, n, m in zip(valid, self.shape, shape, strict=True)]
            valid = tuple(stretched)
        return StridedView(tuple(shape), strides, self.offset, valid)

    def slice(self, starts: Shape, steps: Shape, shape: Shape) -> StridedView:
        """Slice: element i of the result is element starts + i * steps."""
        offset = self.offset + sum(a * s for a, s in zip(starts, self.strides, strict=True))
        strides = tuple(a * s for a, s in zip(steps, self.strides, strict=True))
        valid = self.valid
        if valid is not None:
            ranges = zip(valid, starts, steps, shape, strict=True)
            valid = tuple(_clip_range(v, a, b, n) for v, a, b, n in ranges)
            if all(v == (0, n) for v, n in zip(valid, shape, strict=True)):
                valid = None
        return StridedView(tuple(shape), strides, offset, valid)

    def pad(self, low: Shape, high: Shape) -> StridedView:
        """Pad with zeros: low[i] before and high[i] after along axis i."""
        shape = tuple(a + n + b for a, n, b in zip(low, self.shape, high, strict=True))
        offset = self.offset - sum(a * s for a, s in zip(low, self.strides, strict=True))
        inner = self.valid or tuple((0, n) for n in self.shape)
        valid = tuple((a + x, a + y) for (x, y), a in zip(inner, low, strict=True))
        return StridedView(shape, self.strides, offset, valid)

    def reshape(self, shape: Shape) -> StridedView | None:
        """Keep the elements in row-major order; None if strides cannot express them."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        if 0 in shape:
            return StridedView(shape, (0,) * len(shape), self.offset)
        strides = [0] * len(shape)
        valid = None if self.valid is None else [(0, n) for n in shape]
        for old, new in match_axis_groups(self.shape, shape):
            merged = self._merge_axes(old)
            if merged is None:
                return None
            stride, masked = merged
            if masked is not None:
                nonunit = [j for j in new if shape[j] != 1]
                if len(nonunit) != 1 or valid is None:
                    return None
                valid[nonunit[0]] = masked
            for j in reversed(new):
                strides[j] = stride
                stride *= shape[j]
        result = None if valid is None else tuple(valid)
        return StridedView(shape, tuple(strides), self.offset, result)

    def _merge_axes(self, axes: list[int]) -> tuple[int, tuple[int, int] | None] | None:
        """The stride and mask of several axes merged into one; None if they cannot be merged."""
        nonunit = [i for i in axes if self.shape[i] != 1]
        if not nonunit:
            return (0, None) if self.valid is None or all(
                self.valid[i] == (0, 1) for i in axes
            ) else None
        for i, j in zip(nonunit, nonunit[1:], strict=False):
            if self.strides[i] != self.strides[j] * self.shape[j]:
                return None
        masked = None
        if self.valid is not None:
            narrow = [i for i in axes if self.valid[i] != (0, self.shape[i])]
            if narrow and (len(nonunit) != 1 or narrow != nonunit):
                return None
            masked = self.valid[nonunit[0]] if narrow else None
        return self.strides[nonunit[-1]], masked


_MOVEMENTS: dict[Op, Callable[[StridedView, Node], StridedView | None]] = {
    Op.RESHAPE: lambda view, node: view.reshape(node.shape),
    Op.PERMUTE: lambda view, node: view.permute(node.axes),
    Op.EXPAND: lambda view, node: view.expand(node.shape),
    Op.SLICE: lambda view, node: view.slice(node.starts, node.steps, node.shape),
    Op.PAD: lambda view, node: view.pad(node.low, node.high),
}


def compute_row_major_strides(shape: Shape) -> tuple[int, ...]:
    """The strides of contiguous memory, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def make_contiguous_view(shape: Shape) -> StridedView:
    """The view of a row-major buffer."""
    return StridedView(tuple(shape), compute_row_major_strides(shape))


def view_source(graph: Graph, slot: int) -> StridedView:
    """The view of a source's elements, relative to its address."""
    source = graph.sources[slot]
    return StridedView(source.shape, source.strides or compute_row_major_strides(source.shape))


def find_strided_values(graph: Graph) -> dict[int, StridedView]:
    """The views, by node id, of values read from or written to sources with given strides."""
    slots = [(node.slot, node) for node in graph.inputs] + graph.writes
    return {id(node): view_source(graph, slot) for slot, node in slots
            if graph.sources[slot].strides is not None}


def _clip_range(valid: tuple[int, int], start: int, step: int, n: int) -> tuple[int, int]:
    """The range of i in [0, n) for which start + i * step lies in `valid` [low, high)."""
    low, high = valid
    if step > 0:
        first, after = -(-(low - start) // step), -(-(high - start) // step)
    else:
        first, after = -((high - 1 - start) // -step), (start - low) // -step + 1
    first, after = max(0, first), min(n, after)
    return (first, after) if first < after else (0, 0)


def match_axis_groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]]:
    """Match consecutive groups of old and new axes with equal products."""
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        olds: list[int] = []
        news: list[int] = []
        a = b = 1
        while True:
            if a == b and (olds or news) and (a != 1 or (i >= len(old) or j >= len(new))):
                break
            if a <= b and i < len(old) and not (a == b and a != 1):
                a *= old[i]
                olds.append(i)
                i += 1
            elif j < len(new):
                b *= new[j]
                news.append(j)
                j += 1
            elif i < len(old):
                a *= old[i]
                olds.append(i)
                i += 1
            else:
                break
        groups.append((olds, news))
    assert prod(old) == prod(new), (old, new)
    return groups
