"""choose_layout: carries permutations down through operations until they meet and cancel.

Convolutions read and give channels-last values between two permutations; what stands between one
layer's and the next's (pointwise work, reductions, padding) is rewritten to work on the permuted
value, so that inside the program activations stay channels-last from layer to layer.
"""

from __future__ import annotations

from math import prod

from ..ir.graph import Graph, Node, Op, permute, rebuilt, reshape, same
from ..ir.strided_view import _matching


SMALL = 32  # how much smaller than the result an input is that does not matter


def choose_layout(graph: Graph) -> Graph:
    """The graph with permutations moved towards the users."""
    return rebuilt(graph, lambda node, inputs: _sunk(same(node, inputs)))


def _sunk(node: Node) -> Node:
    if node.op is Op.APPLY:
        return _apply(node)
    if not node.inputs or node.inputs[0].op is not Op.PERMUTE:
        return node
    rule = _RULES.get(node.op)
    if rule is None:
        return node
    (outer,) = node.inputs if len(node.inputs) == 1 else (node.inputs[0],)
    return rule(node, outer.inputs[0], outer.axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axes.index(i) for i in range(len(axes)))


def _apply(node: Node) -> Node:
    """Most of what is read is permuted alike: the operation is done before the permutation.

    What is small beside the result is read permuted the other way, which costs little. The
    gradient of a weight stays as the weight is: it meets the weight and the optimiser's state.
    """
    size = prod(node.shape)
    weights: dict[tuple[int, ...] | None, int] = {}
    for one in node.inputs:
        count = prod(one.shape)
        if count * SMALL >= size:
            sinks = one.op is Op.PERMUTE and one.inputs[0].op is not Op.CONV_WEIGHT
            axes = one.axes if sinks else None
            weights[axes] = weights.get(axes, 0) + count
    permuted = {axes: count for axes, count in weights.items() if axes is not None}
    if size <= 1 or not permuted:
        return node
    axes = max(permuted, key=lambda one: permuted[one])
    if 2 * permuted[axes] <= sum(weights.values()):
        return node
    back = _inverse(axes)
    inputs = tuple(_moved(one, back) for one in node.inputs)
    shape = tuple(node.shape[i] for i in back)
    made = Node(Op.APPLY, inputs, shape, node.type, node.attributes, node.origin)
    return permute(made, axes)


def _moved(node: Node, axes: tuple[int, ...]) -> Node:
    """A permuted view; permutations of permutations are one."""
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
    back = _inverse(axes)
    low, high = (tuple(v[i] for i in back) for v in (node.low, node.high))
    shape = tuple(node.shape[i] for i in back)
    made = Node(Op.PAD, (a,), shape, node.type, {"low": low, "high": high}, node.origin)
    return permute(made, axes)


def _slice(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    back = _inverse(axes)
    starts, steps = (tuple(v[i] for i in back) for v in (node.starts, node.steps))
    shape = tuple(node.shape[i] for i in back)
    attributes = {"starts": starts, "steps": steps}
    return permute(Node(Op.SLICE, (a,), shape, node.type, attributes, node.origin), axes)


def _expand(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    shape = tuple(node.shape[i] for i in _inverse(axes))
    return permute(Node(Op.EXPAND, (a,), shape, node.type), axes)


def _concat(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    if any(one.op is not Op.PERMUTE or one.axes != axes for one in node.inputs):
        return node
    parts = tuple(one.inputs[0] for one in node.inputs)
    shape = tuple(node.shape[i] for i in _inverse(axes))
    made = Node(Op.CONCAT, parts, shape, node.type, {"axis": axes[node.axis]}, node.origin)
    return permute(made, axes)


def _reshape(node: Node, a: Node, axes: tuple[int, ...]) -> Node:
    """A reshape that merges and splits only axes that lie together before the permutation too."""
    if 0 in node.shape:
        return node
    groups = _matching(tuple(a.shape[i] for i in axes), node.shape)
    places = []
    for olds, news in groups:
        inner = [axes[i] for i in olds]
        if inner != list(range(inner[0], inner[0] + len(inner))) if inner else True:
            return node
        places.append((inner[0], news))
    order = [j for _, news in sorted(places) for j in news]
    made = reshape(a, tuple(node.shape[j] for j in order))
    return permute(made, _inverse(tuple(order)))


_RULES = {
    Op.REDUCE: _reduce, Op.PAD: _pad, Op.SLICE: _slice, Op.EXPAND: _expand, Op.CONCAT: _concat,
    Op.RESHAPE: _reshape,
}  # fmt: skip
