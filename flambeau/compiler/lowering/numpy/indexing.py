"""Indexing on nodes: windows by integers, slices and None; rows by arrays of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....native.loop_ir.ir import Scalar, Type
from ...ir import graph
from ...ir.graph import Node, Op
from .node_builders import (
    applied, broadcast_shape, cast, computed, number, reshaped, sliced, stretched, where,
)
from ..registry import refuse


class Window(NamedTuple):
    """A basic index on a shape: the window, and the shape that is made of it."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    result: tuple[int, ...]

    def read(self, node: Node) -> Node:
        """What the index reads."""
        return reshaped(graph.strided_slice(node, self.starts, self.steps, self.shape), self.result)

    def written(self, node: Node, value: Node) -> Node:
        """The node with the window replaced."""
        value = reshaped(stretched(value, self.result), self.shape)
        if self.shape == node.shape and not any(self.starts) and set(self.steps) <= {1}:
            return value
        if 0 in self.shape:
            return node
        if node.op is Op.CONSTANT and not node.value and set(self.steps) <= {1}:
            spans = zip(node.shape, self.starts, self.shape, strict=True)
            return graph.pad(value, self.starts, [n - a - m for n, a, m in spans])
        return Node(Op.UPDATE, (node, value), node.shape, node.type,
                    {"starts": self.starts, "steps": self.steps})  # fmt: skip


def expanded_index(index: Any, rank: int) -> list[Any]:
    """The index as a list that says something of every axis, its ellipsis resolved."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    full = [slice(None)] * (rank - used)
    for i, item in enumerate(items):
        if item is Ellipsis:
            return [*items[:i], *full, *items[i + 1 :]]
    return [*items, *full]


def basic(shape: Sequence[int], index: Any) -> Window:
    """The window of an index of integers, slices, None and an ellipsis."""
    starts, steps, lengths, result = [], [], [], []
    axis = 0
    for item in expanded_index(index, len(shape)):
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
    return Window(tuple(starts), tuple(steps), tuple(lengths), tuple(result))


# ------------------------------------------------------------------------------- positions


def positions(index: Node, extent: int, negative: bool = True) -> Node:
    """An index as I64, counted from the front."""
    index = cast(index, Type.I64)
    if index.op is Op.ARRAY:
        made = np.where(index.value < 0, index.value + extent, index.value)
        return Node(Op.ARRAY, (), index.shape, Type.I64, {"value": made})
    if index.op is Op.CONSTANT:
        return graph.constant(index.value % extent if extent else 0, Type.I64, index.shape)
    if not negative:
        return index
    rank = len(index.shape)
    below = applied(Scalar.LT, index, number(0, Type.I64, rank))
    return where(below, applied(Scalar.ADD, index, number(extent, Type.I64, rank)), index)


def rows(x: Node, index: Node, axis: int = 0, negative: bool = True) -> Node:
    """x at positions along an axis, which the index's axes replace."""
    index = positions(index, x.shape[axis], negative)
    rank = len(x.shape)
    line = _line(index)
    if line is not None:
        return sliced(x, axis, *line)
    times = _repeats(index, x.shape[axis])
    if times:
        wide = reshaped(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        wide = stretched(wide, (*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
        return reshaped(wide, (*x.shape[:axis], -1, *x.shape[axis + 1 :]))
    front = graph.permute(x, (axis, *(i for i in range(rank) if i != axis)))
    shape = (*index.shape, *front.shape[1:])
    made = Node(Op.TAKE, (front, index), shape, x.type)
    if not axis:
        return made
    k = len(index.shape)
    order = (*range(k, k + axis), *range(k), *range(k + axis, k + rank - 1))
    return graph.permute(made, order)


def _line(index: Node) -> tuple[int, int, int] | None:
    """(start, length, step) of known positions that are evenly spaced; None for others."""
    if index.op is not Op.ARRAY or len(index.shape) != 1:
        return None
    steps = np.diff(index.value)
    if not steps.size or not steps[0] or (steps != steps[0]).any():
        return None
    return int(index.value[0]), index.value.size, int(steps[0])


def _repeats(index: Node, n: int) -> int:
    """How often known positions name each of n places, one after the other; 0 for others."""
    if index.op is not Op.ARRAY or len(index.shape) != 1 or not n or index.shape[0] % n:
        return 0
    times = index.shape[0] // n
    return times if np.array_equal(index.value, np.arange(n).repeat(times)) else 0


def linear(indices: Sequence[Node], extents: Sequence[int], negative: bool = True) -> Node:
    """One position in row-major order from positions along several axes."""
    shape = broadcast_shape(*indices)
    total: Node | None = None
    for index, n in zip(indices, extents, strict=True):
        one = positions(index, n, negative)
        if total is None:
            total = one
            continue
        scaled = applied(Scalar.MUL, total, number(n, Type.I64))
        total = applied(Scalar.ADD, scaled, one)
    return stretched(total, shape) if total is not None else refuse("an index of no arrays")


@dataclass(frozen=True)
class Positions:
    """An index with arrays: the order of axes that puts those indexed first, and where the
    result's axes then go."""

    order: tuple[int, ...]
    index: Node
    count: int  # axes indexed
    target: int  # the place of the index's axes in the result

    def read(self, x: Node) -> Node:
        """The elements at the positions."""
        front = graph.permute(x, self.order)
        flat = reshaped(front, (math.prod(front.shape[: self.count]), *front.shape[self.count :]))
        made = rows(flat, self.index, 0, False)
        k, rest = len(self.index.shape), len(front.shape) - self.count
        back = (*range(k, k + self.target), *range(k), *range(k + self.target, k + rest))
        return graph.permute(made, back)

    def first(self, values: Node, rest: Sequence[int]) -> Node:
        """Values for the places of the result as rows, one for each position."""
        k, result = len(self.index.shape), list(rest)
        result[self.target : self.target] = self.index.shape
        order = (*range(self.target, self.target + k), *range(self.target),
                 *range(self.target + k, len(result)))  # fmt: skip
        values = graph.permute(stretched(values, result), order)
        return reshaped(values, (math.prod(self.index.shape), *rest))

    def added(self, shape: Sequence[int], values: Node) -> Node:
        """Zeros of a shape with values added at the positions."""
        front = [shape[i] for i in self.order]
        rest = front[self.count :]
        flat = (math.prod(front[: self.count]), *rest)
        type, values = values.type, self.first(values, rest)
        values = cast(values, computed(type))
        made = Node(Op.ADD_ROWS, (reshaped(self.index, (-1,)), values), flat, values.type)
        made = cast(made, type)
        inverse = [self.order.index(i) for i in range(len(shape))]
        return graph.permute(reshaped(made, front), inverse)


def by_positions(shape: Sequence[int], items: Sequence[Any], negative: bool = True) -> Positions:
    """An index of full slices and nodes of integers, one for each axis."""
    at = [i for i, item in enumerate(items) if isinstance(item, Node)]
    for i, item in enumerate(items):
        if i not in at and item != slice(None):
            refuse("an index of arrays and windows")
    order = (*at, *(i for i in range(len(shape)) if i not in at))
    adjacent = at == list(range(at[0], at[0] + len(at)))
    index = linear([items[i] for i in at], [shape[i] for i in at], negative)
    return Positions(order, index, len(at), at[0] if adjacent else 0)
