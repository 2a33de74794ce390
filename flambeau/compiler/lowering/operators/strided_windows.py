"""Shared by convolutions and pooling: interleaving the phases of a stride, cropping and borders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....native.loop_ir.ir import Scalar
from ...ir import graph
from ...ir.graph import Node
from ..numpy.node_builders import (
    apply_operation, literal, number, reshape_node, slice_axis, stack_nodes, where,
)


def pad_or_crop(node: Node, axis: int, low: int, high: int) -> Node:
    """Pad with zeros along an axis; negative numbers crop."""
    start, end = max(-low, 0), max(-high, 0)
    length = node.shape[axis] - start - end
    if length <= 0:  # nothing is left
        shape = list(node.shape)
        shape[axis] += low + high
        return graph.constant(0, node.type, tuple(shape))
    node = slice_axis(node, axis, start, length)
    lows, highs = [0] * len(node.shape), [0] * len(node.shape)
    lows[axis], highs[axis] = max(low, 0), max(high, 0)
    return graph.pad(node, lows, highs)


def add_border(node: Node, low: Sequence[int], high: Sequence[int], value: float) -> Node:
    """Pad a node with a number."""
    padded = graph.pad(node, low, high)
    if value == 0 or padded is node:
        return padded
    inside: Node | None = None
    rank = len(node.shape)
    for axis, (n, a, m) in enumerate(zip(node.shape, low, padded.shape, strict=True)):
        if n == m:
            continue
        positions = np.arange(m).reshape([-1 if i == axis else 1 for i in range(rank)])
        inside_axis = literal((positions >= a) & (positions < a + n))
        inside = inside_axis if inside is None else apply_operation(Scalar.AND, inside, inside_axis)
    return padded if inside is None else where(inside, padded, number(value, node.type, rank))


def interleave(parts: list[Node], axis: int) -> Node:
    """Interleave the parts along an axis."""
    if len(parts) == 1:
        return parts[0]
    stacked_parts = stack_nodes(parts, axis + 1)
    shape = (
        *stacked_parts.shape[:axis],
        stacked_parts.shape[axis] * len(parts),
        *stacked_parts.shape[axis + 2 :],
    )
    return reshape_node(stacked_parts, shape)


def build_zeros(node: Node, shape: Sequence[int]) -> Node:
    """Zeros of a shape, with a node's type."""
    return graph.constant(0, node.type, tuple(shape))
