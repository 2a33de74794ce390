"""What convolutions and pooling share: cotangents put back between strides, borders of a number."""

from __future__ import annotations

from collections.abc import Sequence

from .. import graph
from ..graph import Node, Op
from .nodes import reshaped, sliced, stacked


def cropped(node: Node, axis: int, low: int, high: int) -> Node:
    """Zeros around along an axis; negative numbers crop."""
    start, end = max(-low, 0), max(-high, 0)
    length = node.shape[axis] - start - end
    if length <= 0:  # nothing of it is left
        shape = list(node.shape)
        shape[axis] += low + high
        return graph.constant(0, node.type, tuple(shape))
    node = sliced(node, axis, start, length)
    lows, highs = [0] * len(node.shape), [0] * len(node.shape)
    lows[axis], highs[axis] = max(low, 0), max(high, 0)
    return graph.pad(node, lows, highs)


def bordered(node: Node, low: Sequence[int], high: Sequence[int], value: float) -> Node:
    """The node with a number around it."""
    if not any(low) and not any(high):
        return node
    if value == 0:
        return graph.pad(node, low, high)
    shape = tuple(n + a + b for n, a, b in zip(node.shape, low, high, strict=True))
    around = graph.constant(value, node.type, shape)
    return Node(Op.UPDATE, (around, node), shape, node.type,
                {"starts": tuple(low), "steps": (1,) * len(shape)})  # fmt: skip


def woven(parts: list[Node], axis: int) -> Node:
    """Places of the parts in turn along an axis."""
    if len(parts) == 1:
        return parts[0]
    made = stacked(parts, axis + 1)
    shape = (*made.shape[:axis], made.shape[axis] * len(parts), *made.shape[axis + 2 :])
    return reshaped(made, shape)


def nothing(node: Node, shape: Sequence[int]) -> Node:
    """Zeros of a node's type."""
    return graph.constant(0, node.type, tuple(shape))
