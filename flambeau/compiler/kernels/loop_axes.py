"""Merge axes of a group's domain that are adjacent in every array into one loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...native.loop_ir.ir import ReduceOp
from ...native.target.graph_costs import (
    CHUNK_ELEMENTS, COLUMN_BLOCK_ELEMENTS, MAX_NARROW_COLUMNS,
)
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion
from ..fusion.fusion_group import (
    FusionGroup, iterate_fused_nodes, reshape_chain, view_partial_sums, view_through,
)
from ..ir.graph import Node, Op
from ..ir.strided_view import StridedView

POSITION_REDUCTIONS = (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
_POSITION_OPS = (Op.IOTA, Op.TAKE, Op.TAKE_ALONG, Op.PAD)


def merge_axes(
    group: FusionGroup, nodes: Sequence[Node], fusion: Fusion, layout: BufferAssignment
) -> list[list[int]]:
    """Group the domain's axes; axes that are contiguous in all arrays form one group."""
    return _group_mergeable_axes(
        group.shape, group.axes, _list_accessed_views(group, nodes, fusion, layout),
        _uses_positions_as_values(nodes, fusion),
    )


def _list_accessed_views(
    group: FusionGroup, nodes: Sequence[Node], fusion: Fusion, layout: BufferAssignment
) -> list[StridedView]:
    """Return the views through which the loops' domain accesses each array."""
    shape, rows = group.shape, group.rows
    computed = {id(node) for node in nodes}
    result: list[StridedView | None] = []
    for node in nodes:
        number = reshape_chain(node, rows) if group.is_number(node) else ()
        for leaf, chain in fusion.read(node):
            if id(leaf) in computed:
                continue
            window = view_through(layout.place(leaf).window, (*chain, *number))
            if window is not None and window.shape == shape:
                result.append(window)
            elif window is not None and window.shape == rows:
                result.append(window.expand(shape))
        if node.op is Op.SUM_PARTS:
            result.append(view_partial_sums(node, shape))
            continue
        for place in layout.targets(node):
            window = view_through(place.window, number)
            if node.shape == shape:
                result.append(window)
            elif window is not None and window.shape == rows:
                result.append(window.expand(shape))
    return [w for w in result if w is not None]


def _uses_positions_as_values(nodes: Sequence[Node], fusion: Fusion) -> bool:
    """Whether positions are used as values, so that axes must not be merged."""
    parts = (part for node in nodes for part in iterate_fused_nodes(node, fusion.materialized))
    return any(part.op in _POSITION_OPS
               or (part.op is Op.REDUCE and part.fold in POSITION_REDUCTIONS) for part in parts)


def _group_mergeable_axes(
    shape: Sequence[int], folded: Sequence[int], views: list[StridedView], uses_positions: bool
) -> list[list[int]]:
    """Group consecutive axes that are contiguous in all views; leave out extents of 1."""
    result: list[list[int]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        previous = result[-1][-1] if result else None
        is_mergeable = (
            previous is not None
            and not uses_positions
            and (previous in folded) == (axis in folded)
            and all(v.strides[previous] == v.strides[axis] * extent and v.whole for v in views)
        )
        if is_mergeable:
            result[-1].append(axis)
        else:
            result.append([axis])
    return result


def is_narrow(group: FusionGroup, free: list[list[int]], folded: list[list[int]]) -> bool:
    """Whether rows are too short to fill vectors, so that lanes should run across rows."""
    shape = group.shape
    if (
        not free
        or not folded
        or prod(count_along_axes(shape, axes) for axes in folded) > MAX_NARROW_COLUMNS
    ):
        return False
    rows = count_along_axes(shape, free[-1])
    return rows >= COLUMN_BLOCK_ELEMENTS // 4 and (
        prod(shape) <= CHUNK_ELEMENTS or rows % COLUMN_BLOCK_ELEMENTS == 0
    )


def count_along_axes(shape: Sequence[int], axes: list[int]) -> int:
    """Return the number of elements along some axes."""
    return prod(shape[i] for i in axes)
