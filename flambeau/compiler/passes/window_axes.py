"""Preserve window axes: compute on values expanded over windows before their axes are merged.

The gradient of a pool expands one value over each window and then merges the window's axis with the
axis of windows. Strides cannot express the merged array, so it would be written to memory and read
again. Pointwise work and reductions that follow run over the separate axes instead, and only their
result is reshaped. Free: the same operations in another shape.
"""

from __future__ import annotations

from math import prod

from ..ir.graph import Graph, Node, Op, Shape, reduce, reshape, with_origin
from .pattern import Rule, RuleSet, op, scalar


def preserve_window_axes(graph: Graph) -> Graph:
    """Move pointwise operations and reductions before the reshape that merges window axes."""
    return _RULES.rewrite(graph)


def _move_before_merge(node: Node) -> Node | None:
    """Rewrite f(merge(a)) as merge(f(a)) if `a` reads a value that is expanded over windows."""
    for a in node.inputs:
        if a.op is not Op.RESHAPE or a.shape != _find_domain(node):
            continue
        fine = a.inputs[0]
        parts = _match_axes(fine.shape, a.shape)
        if parts is None or not _reads_expanded_value(fine, parts):
            continue
        move = _move_reduce if node.op is Op.REDUCE else _move_apply
        moved = move(node, fine, parts)
        if moved is not None:
            return with_origin(node, reshape(moved, node.shape), moved)
    return None


_RULES = RuleSet(Rule(scalar.ANY(), _move_before_merge), Rule(op.REDUCE(), _move_before_merge))


def _find_domain(node: Node) -> Shape:
    """The shape of a node's iteration space."""
    return node.inputs[0].shape if node.op is Op.REDUCE else node.shape


def _match_axes(fine: Shape, coarse: Shape) -> list[list[int]] | None:
    """For each coarse axis, the fine axes that merge into it; None if they do not line up."""
    if len(fine) <= len(coarse) or 0 in fine:
        return None
    parts: list[list[int]] = []
    axis = 0
    for extent in coarse:
        part = [axis]
        while part[-1] < len(fine) - 1 and prod(fine[i] for i in part) < extent:
            part.append(part[-1] + 1)
        if axis >= len(fine) or prod(fine[i] for i in part) != extent:
            return None
        parts.append(part)
        axis = part[-1] + 1
    return parts if axis == len(fine) else None


def _reads_expanded_value(node: Node, parts: list[list[int]]) -> bool:
    """Whether an operand, direct or indirect, is expanded along some but not all merged axes."""
    if node.op is not Op.APPLY:
        return False
    for a in node.inputs:
        if _reads_expanded_value(a, parts):
            return True
        for part in parts:
            matches = [a.shape[i] == node.shape[i] for i in part if node.shape[i] != 1]
            if any(matches) and not all(matches):
                return True
    return False


def _move_apply(node: Node, fine: Node, parts: list[list[int]]) -> Node:
    inputs = []
    for a in node.inputs:
        if a.op is Op.RESHAPE and a.inputs[0].shape == fine.shape:
            inputs.append(a.inputs[0])
            continue
        shape = tuple(
            fine.shape[i] if extent != 1 else 1
            for extent, part in zip(a.shape, parts, strict=True) for i in part
        )
        inputs.append(reshape(a, shape))
    return Node(Op.APPLY, tuple(inputs), fine.shape, node.type, node.attributes)


def _move_reduce(node: Node, fine: Node, parts: list[list[int]]) -> Node | None:
    if node.type is not node.inputs[0].type:
        return None  # the result of an argmax is a position along one axis
    return reduce(fine, node.fold, [i for axis in node.axes for i in parts[axis]])
