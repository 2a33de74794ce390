"""keep_windows: work on values that were stretched over windows is done while windows have axes.

The gradient of a pool stretches one number over each window, and then makes one axis of windows
and positions in them. Strides cannot say what lies there, so that array would be written and read
again by the next kernel. What follows (the gradient of an activation, a bias's sums) goes over the
windows' axes instead, and its result is reshaped.
"""

from __future__ import annotations

from math import prod

from ..ir.graph import Graph, Node, Op, Shape, rebuilt, reduce, reshape, same


def keep_windows(graph: Graph) -> Graph:
    """The graph with such pointwise work and folds before the axes are merged."""
    return rebuilt(graph, lambda node, inputs: _kept(same(node, inputs)))


def _kept(node: Node) -> Node:
    if node.op not in (Op.APPLY, Op.REDUCE):
        return node
    for one in node.inputs:
        fine = one.inputs[0] if one.op is Op.RESHAPE else one
        parts = None if fine is one else _parts(fine.shape, one.shape)
        if parts is None or one.shape != _full(node) or not _is_stretched(fine, parts):
            continue
        made = _folded(node, fine, parts) if node.op is Op.REDUCE else _applied(node, fine, parts)
        if made is not None:
            made.origin = node.origin
            found = reshape(made, node.shape)
            found.origin = node.origin
            return found
    return node


def _full(node: Node) -> Shape:
    """The shape that a node goes over."""
    return node.inputs[0].shape if node.op is Op.REDUCE else node.shape


def _parts(fine: Shape, coarse: Shape) -> list[list[int]] | None:
    """For each axis the finer ones that it is made of; None where that is not so."""
    if len(fine) <= len(coarse) or 0 in fine:
        return None
    parts: list[list[int]] = []
    at = 0
    for extent in coarse:
        part = [at]
        while part[-1] < len(fine) - 1 and prod(fine[i] for i in part) < extent:
            part.append(part[-1] + 1)
        if at >= len(fine) or prod(fine[i] for i in part) != extent:
            return None
        parts.append(part)
        at = part[-1] + 1
    return parts if at == len(fine) else None


def _is_stretched(node: Node, parts: list[list[int]]) -> bool:
    """Whether a node reads values that are stretched along some axes that are merged, not all, or
    is made of one that does."""
    if node.op is not Op.APPLY:
        return False
    for one in node.inputs:
        if _is_stretched(one, parts):
            return True
        for part in parts:
            wide = [one.shape[i] == node.shape[i] for i in part if node.shape[i] != 1]
            if any(wide) and not all(wide):
                return True
    return False


def _applied(node: Node, fine: Node, parts: list[list[int]]) -> Node:
    inputs = []
    for one in node.inputs:
        if one.op is Op.RESHAPE and one.inputs[0].shape == fine.shape:
            inputs.append(one.inputs[0])
            continue
        shape = tuple(
            fine.shape[i] if extent != 1 else 1
            for extent, part in zip(one.shape, parts, strict=True) for i in part
        )  # fmt: skip
        inputs.append(reshape(one, shape))
    return Node(Op.APPLY, tuple(inputs), fine.shape, node.type, node.attributes)


def _folded(node: Node, fine: Node, parts: list[list[int]]) -> Node | None:
    if node.type is not node.inputs[0].type:
        return None  # positions, which are those along one axis
    return reduce(fine, node.fold, [i for axis in node.axes for i in parts[axis]])
