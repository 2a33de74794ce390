"""Layout propagation: sink permutations toward their users until they cancel.

Convolutions read and write channels-last values between two permutations. The work between two
convolutions (pointwise, reductions, padding) is rewritten to run on the permuted value, so that
activations stay channels-last from layer to layer. Free: no value is computed twice.
"""

from __future__ import annotations

from math import prod

from ...native.target.graph_costs import NEGLIGIBLE_PERMUTE_RATIO
from ..ir.axis_order import inverse_permutation
from ..ir.graph import Graph, Node, Op, permute, reshape, rewrite_nodes
from ..ir.strided_view import match_axis_groups


def propagate_layouts(graph: Graph) -> Graph:
    """Move permutations below the operations that read them."""
    return rewrite_nodes(graph, _sink)


def _sink(node: Node) -> Node:
    if node.op is Op.APPLY:
        return _apply(node)
    if not node.inputs or node.inputs[0].op is not Op.PERMUTE:
        return node
    rule = _RULES.get(node.op)
    if rule is None:
        return node
    (outer,) = node.inputs if len(node.inputs) == 1 else (node.inputs[0],)
    return rule(node, outer.inputs[0], outer.axes)


def _apply(node: Node) -> Node:
    """Permute after the operation when most input elements share one permutation.

    Inputs much smaller than the result are read through the inverse permutation. A weight gradient
    keeps the layout of its weight, because the optimizer combines both.
    """
    size = prod(node.shape)
    weights: dict[tuple[int, ...] | None, int] = {}
    for a in node.inputs:
        count = prod(a.shape)
        if count * NEGLIGIBLE_PERMUTE_RATIO >= size:
            sinks = a.op is Op.PERMUTE and a.inputs[0].op is not Op.CONV_WEIGHT
            axes = a.axes if sinks else None
            weights[axes] = weights.get(axes, 0) + count
    permuted = {axes: count for axes, count in weights.items() if axes is not None}
    if size <= 1 or not permuted:
        return node
    axes = max(permuted, key=lambda key: permuted[key])
    if 2 * permuted[axes] <= sum(weights.values()):
        return node
    back = inverse_permutation(axes)
    inputs = tuple(_permute_input(a, back) for a in node.inputs)
    shape = tuple(node.shape[i] for i in back)
    return permute(Node(Op.APPLY, inputs, shape, node.type, node.attributes, node.origin), axes)


def _permute_input(node: Node, axes: tuple[int, ...]) -> Node:
    """A permuted view; a permutation of a permutation becomes one permutation."""
    if node.op is Op.PERMUTE:
        return permute(node.inputs[0], tuple(node.axes[i] for i in axes))
    return permute(node, axes)


def _reduce(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    folded = tuple(sorted(axes[i] for i in node.axes))
    shape = tuple(1 if i in folded else n for i, n in enumerate(a.shape))
    attributes = {"fold": node.fold, "axes": folded}
    if len(node.axes) > 1 and node.type is not a.type:
        return node
    return permute(Node(Op.REDUCE, (a,), shape, node.type, attributes, node.origin), axes)


def _pad(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    back = inverse_permutation(axes)
    low, high = (tuple(v[i] for i in back) for v in (node.low, node.high))
    shape = tuple(node.shape[i] for i in back)
    attributes = {"low": low, "high": high}
    return permute(Node(Op.PAD, (a,), shape, node.type, attributes, node.origin), axes)


def _slice(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    back = inverse_permutation(axes)
    starts, steps = (tuple(v[i] for i in back) for v in (node.starts, node.steps))
    shape = tuple(node.shape[i] for i in back)
    attributes = {"starts": starts, "steps": steps}
    return permute(Node(Op.SLICE, (a,), shape, node.type, attributes, node.origin), axes)


def _expand(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    shape = tuple(node.shape[i] for i in inverse_permutation(axes))
    return permute(Node(Op.EXPAND, (a,), shape, node.type), axes)


def _concat(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    if any(part.op is not Op.PERMUTE or part.axes != axes for part in node.inputs):
        return node
    parts = tuple(part.inputs[0] for part in node.inputs)
    shape = tuple(node.shape[i] for i in inverse_permutation(axes))
    attributes = {"axis": axes[node.axis]}
    return permute(Node(Op.CONCAT, parts, shape, node.type, attributes, node.origin), axes)


def _reshape(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    """Sink through a reshape that merges and splits only axes adjacent before the permutation."""
    if 0 in node.shape:
        return node
    groups = match_axis_groups(tuple(a.shape[i] for i in axes), node.shape)
    places = []
    for old_axes, new_axes in groups:
        inner = [axes[i] for i in old_axes]
        if inner != list(range(inner[0], inner[0] + len(inner))) if inner else True:
            return node
        places.append((inner[0], new_axes))
    order = [j for _, new_axes in sorted(places) for j in new_axes]
    return permute(reshape(a, tuple(node.shape[j] for j in order)), inverse_permutation(order))


_RULES = {
    Op.REDUCE: _reduce, Op.PAD: _pad, Op.SLICE: _slice, Op.EXPAND: _expand, Op.CONCAT: _concat,
    Op.RESHAPE: _reshape,
}
