"""Indexing on nodes: integers, slices and None select a window; integer arrays select rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....native.loop_ir.ir import Scalar, Type
from ...ir import graph
from ...ir.axis_order import invert_permutation
from ...ir.graph import Node, Op
from ..registry import refuse
from .node_builders import (
    apply_operation, broadcast_shape, broadcast_to, cast, compute_type, number, reshape_node,
    slice_axis, where,
)


class BasicIndex(NamedTuple):
    """A basic index on a shape: a strided window, and the shape it is reshaped to (`result`)."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    result: tuple[int, ...]

    def read(self, node: Node) -> Node:
        """Read the indexed elements."""
        return reshape_node(
            graph.strided_slice(node, self.starts, self.steps, self.shape), self.result
        )

    def written(self, node: Node, value: Node) -> Node:
        """Return the node with the indexed elements replaced by `value`."""
        value = reshape_node(broadcast_to(value, self.result), self.shape)
        if self.shape == node.shape and not any(self.starts) and set(self.steps) <= {1}:
            return value
        if 0 in self.shape:
            return node
        if node.op is Op.CONSTANT and not node.value and set(self.steps) <= {1}:
            spans = zip(node.shape, self.starts, self.shape, strict=True)
            return graph.pad(value, self.starts, [n - a - m for n, a, m in spans])
        return Node(Op.UPDATE, (node, value), node.shape, node.type,
                    {"starts": self.starts, "steps": self.steps})


def expand_ellipsis(index: Any, rank: int) -> list[Any]:
    """Return the index as a list with an item per axis (plus Nones), its ellipsis expanded."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    full = [slice(None)] * (rank - used)
    for i, item in enumerate(items):
        if item is Ellipsis:
            return [*items[:i], *full, *items[i + 1 :]]
    return [*items, *full]


def match_basic_index(shape: Sequence[int], index: Any) -> BasicIndex:
    """Convert an index of integers, slices, None and an ellipsis; IndexError if out of bounds."""
    starts, steps, lengths, result = [], [], [], []
    axis = 0
    for item in expand_ellipsis(index, len(shape)):
        if item is None:
            result.append(1)
            continue
        n = shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            length = len(range(start, stop, step))
            starts.append(start if length else 0)
            steps.append(step if length > 1 else 1)
            result.append(length)
        else:
            at = item.__index__()
            if not -n <= at < n:
                raise IndexError(f"index {at} is out of bounds for axis {axis} of size {n}")
            starts.append(at % n)
            steps.append(1)
            length = 1
        lengths.append(length)
        axis += 1
    return BasicIndex(tuple(starts), tuple(steps), tuple(lengths), tuple(result))


# ------------------------------------------------------------------------------- positions


def normalize_positions(index: Node, extent: int, negative: bool = True) -> Node:
    """Cast positions to I64 and, if `negative`, add the extent to negative ones."""
    index = cast(index, Type.I64)
    if index.op is Op.ARRAY:
        positive = np.where(index.value < 0, index.value + extent, index.value)
        return Node(Op.ARRAY, (), index.shape, Type.I64, {"value": positive})
    if index.op is Op.CONSTANT:
        return graph.constant(index.value % extent if extent else 0, Type.I64, index.shape)
    if not negative:
        return index
    rank = len(index.shape)
    below = apply_operation(Scalar.LT, index, number(0, Type.I64, rank))
    return where(below, apply_operation(Scalar.ADD, index, number(extent, Type.I64, rank)), index)


def take_along_axis_of(x: Node, index: Node, axis: int = 0, negative: bool = True) -> Node:
    """Select x at positions along an axis; the index's axes replace that axis."""
    index = normalize_positions(index, x.shape[axis], negative)
    rank = len(x.shape)
    line = _match_even_spacing(index)
    if line is not None:
        return slice_axis(x, axis, *line)
    times = _count_repeats(index, x.shape[axis])
    if times:
        expanded = reshape_node(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        expanded = broadcast_to(expanded, (*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
        return reshape_node(expanded, (*x.shape[:axis], -1, *x.shape[axis + 1 :]))
    front = graph.permute(x, (axis, *(i for i in range(rank) if i != axis)))
    shape = (*index.shape, *front.shape[1:])
    gathered = Node(Op.TAKE, (front, index), shape, x.type)
    if not axis:
        return gathered
    k = len(index.shape)
    order = (*range(k, k + axis), *range(k), *range(k + axis, k + rank - 1))
    return graph.permute(gathered, order)


def _match_even_spacing(index: Node) -> tuple[int, int, int] | None:
    """(start, length, step) if the positions are constant and evenly spaced, else None."""
    if index.op is not Op.ARRAY or len(index.shape) != 1:
        return None
    steps = np.diff(index.value)
    if not steps.size or not steps[0] or (steps != steps[0]).any():
        return None
    return int(index.value[0]), index.value.size, int(steps[0])


def _count_repeats(index: Node, n: int) -> int:
    """How often constant positions repeat each of 0..n-1 in order; 0 for other positions."""
    if index.op is not Op.ARRAY or len(index.shape) != 1 or not n or index.shape[0] % n:
        return 0
    times = index.shape[0] // n
    return times if np.array_equal(index.value, np.arange(n).repeat(times)) else 0


def flatten_positions(
    indices: Sequence[Node], extents: Sequence[int], negative: bool = True
) -> Node:
    """Combine positions along several axes into one row-major position."""
    shape = broadcast_shape(*indices)
    total: Node | None = None
    for index, n in zip(indices, extents, strict=True):
        axis_positions = normalize_positions(index, n, negative)
        if total is None:
            total = axis_positions
            continue
        scaled = apply_operation(Scalar.MUL, total, number(n, Type.I64))
        total = apply_operation(Scalar.ADD, scaled, axis_positions)
    return broadcast_to(total, shape) if total is not None else refuse("an index without arrays")


@dataclass(frozen=True)
class AdvancedIndex:
    """An index with arrays: the axis order that puts the indexed axes first, and the place of the
    index's axes in the result.
    """

    order: tuple[int, ...]
    index: Node
    count: int  # axes indexed
    target: int  # the place of the index's axes in the result

    def read(self, x: Node) -> Node:
        """Read the elements at the positions."""
        front = graph.permute(x, self.order)
        flat = reshape_node(
            front, (math.prod(front.shape[: self.count]), *front.shape[self.count :])
        )
        gathered = take_along_axis_of(flat, self.index, 0, False)
        k, rest = len(self.index.shape), len(front.shape) - self.count
        back = (*range(k, k + self.target), *range(k), *range(k + self.target, k + rest))
        return graph.permute(gathered, back)

    def first(self, values: Node, rest: Sequence[int]) -> Node:
        """Broadcast values to the result's shape, with one row per position."""
        k, result = len(self.index.shape), list(rest)
        result[self.target : self.target] = self.index.shape
        order = (*range(self.target, self.target + k), *range(self.target),
                 *range(self.target + k, len(result)))
        values = graph.permute(broadcast_to(values, result), order)
        return reshape_node(values, (math.prod(self.index.shape), *rest))

    def scatter_add(self, shape: Sequence[int], values: Node) -> Node:
        """Add values at the positions of a zero array of a shape."""
        front = [shape[i] for i in self.order]
        rest = front[self.count :]
        flat = (math.prod(front[: self.count]), *rest)
        type, values = values.type, self.first(values, rest)
        values = cast(values, compute_type(type))
        summed_rows = Node(
            Op.ADD_ROWS, (reshape_node(self.index, (-1,)), values), flat, values.type
        )
        summed_rows = cast(summed_rows, type)
        return graph.permute(reshape_node(summed_rows, front), invert_permutation(self.order))


def match_advanced_index(
    shape: Sequence[int], items: Sequence[Any], negative: bool = True
) -> AdvancedIndex:
    """Convert an index of full slices and integer nodes, one for each axis."""
    advanced = [i for i, item in enumerate(items) if isinstance(item, Node)]
    for i, item in enumerate(items):
        if i not in advanced and item != slice(None):
            refuse("an index that mixes arrays and views")
    order = (*advanced, *(i for i in range(len(shape)) if i not in advanced))
    adjacent = advanced == list(range(advanced[0], advanced[0] + len(advanced)))
    index = flatten_positions([items[i] for i in advanced], [shape[i] for i in advanced], negative)
    return AdvancedIndex(order, index, len(advanced), advanced[0] if adjacent else 0)
