"""Layout propagation: sink permutations toward their users until they cancel.

Convolutions read and write channels-last values between two permutations. The work between two
convolutions (pointwise, reductions, padding) is rewritten to run on the permuted value, so that
activations stay channels-last from layer to layer. Free: no value is computed twice.
"""

from __future__ import annotations

from math import prod

from ...native.target.graph_costs import NEGLIGIBLE_PERMUTE_RATIO
from ..ir.axis_order import invert_permutation
from ..ir.graph import Graph, Node, Op, permute, reshape
from ..ir.strided_view import match_axis_groups
from .pattern import RuleSet, capture, op, rule, scalar

x = capture("x")


def propagate_layouts(graph: Graph) -> Graph:
    """Move permutations below the operations that read them."""
    return _RULES.rewrite(graph)


@rule(scalar.ANY())
def _sink_below_operation(node: Node) -> Node | None:
    """Rewrite f(permute(a), permute(b)) as permute(f(a, b)) when most input elements share the
    permutation.

    Inputs much smaller than the result are read through the inverse permutation. A weight gradient
    keeps the layout of its weight, because the optimizer combines both.
    """
    size = prod(node.shape)
    weights: dict[tuple[int, ...] | None, int] = {}
    for a in node.inputs:
        count = _count_elements(a)
        if count * NEGLIGIBLE_PERMUTE_RATIO >= size:
            sinks = a.op is Op.PERMUTE and a.inputs[0].op is not Op.CONV_WEIGHT
            axes = a.axes if sinks else None
            weights[axes] = weights.get(axes, 0) + count
    permuted = {axes: count for axes, count in weights.items() if axes is not None}
    if size <= 1 or not permuted:
        return None
    axes = max(permuted, key=lambda key: permuted[key])
    if 2 * permuted[axes] <= sum(weights.values()):
        return None
    back = invert_permutation(axes)
    inputs = tuple(_permute_input(a, back) for a in node.inputs)
    shape = tuple(node.shape[i] for i in back)
    return permute(Node(Op.APPLY, inputs, shape, node.type, node.attributes, node.origin), axes)


def _count_elements(node: Node) -> int:
    """Return how many elements a node's values come from: a permuted view of an expanded node, or
    of what is computed from one and constants, is as cheap as the node itself."""
    while node.op is Op.EXPAND or node.op is Op.APPLY:
        varying = [a for a in node.inputs if a.op is not Op.CONSTANT]
        if len(varying) != 1:
            break
        node = varying[0]
    return prod(node.shape)


def _permute_input(node: Node, axes: tuple[int, ...]) -> Node:
    """A permuted view; a permutation of a permutation becomes one permutation."""
    if node.op is Op.PERMUTE:
        return permute(node.inputs[0], tuple(node.axes[i] for i in axes))
    return permute(node, axes)


@rule(op.REDUCE(op.PERMUTE(x)))
def _sink_below_reduce(node: Node, x: Node) -> Node | None:
    """Rewrite reduce(permute(x)) as permute(reduce(x))."""
    axes = node.inputs[0].axes
    folded = tuple(sorted(axes[i] for i in node.axes))
    shape = tuple(1 if i in folded else n for i, n in enumerate(x.shape))
    attributes = {"fold": node.fold, "axes": folded}
    if len(node.axes) > 1 and node.type is not x.type:
        return None
    return permute(Node(Op.REDUCE, (x,), shape, node.type, attributes, node.origin), axes)


@rule(op.PAD(op.PERMUTE(x)))
def _sink_below_pad(node: Node, x: Node) -> Node:
    """Rewrite pad(permute(x)) as permute(pad(x))."""
    return _sink(node, x, low=node.low, high=node.high)


@rule(op.SLICE(op.PERMUTE(x)))
def _sink_below_slice(node: Node, x: Node) -> Node:
    """Rewrite slice(permute(x)) as permute(slice(x))."""
    return _sink(node, x, starts=node.starts, steps=node.steps)


def _sink(node: Node, x: Node, **per_axis: tuple) -> Node:
    """Return a permutation of the node applied to x; `per_axis`: its attributes, one per axis."""
    axes = node.inputs[0].axes
    back = invert_permutation(axes)
    shape = tuple(node.shape[i] for i in back)
    attributes = {name: tuple(values[i] for i in back) for name, values in per_axis.items()}
    return permute(Node(node.op, (x,), shape, node.type, attributes, node.origin), axes)


@rule(op.EXPAND(op.PERMUTE(x)))
def _sink_below_expand(node: Node, x: Node) -> Node:
    """Rewrite expand(permute(x)) as permute(expand(x))."""
    axes = node.inputs[0].axes
    shape = tuple(node.shape[i] for i in invert_permutation(axes))
    return permute(Node(Op.EXPAND, (x,), shape, node.type), axes)


@rule(op.CONCAT())
def _sink_below_concat(node: Node) -> Node | None:
    """Rewrite concat(permute(a), permute(b)) as permute(concat(a, b))."""
    first = node.inputs[0]
    axes = first.axes if first.op is Op.PERMUTE else None
    if axes is None or any(part.op is not Op.PERMUTE or part.axes != axes for part in node.inputs):
        return None
    parts = tuple(part.inputs[0] for part in node.inputs)
    shape = tuple(node.shape[i] for i in invert_permutation(axes))
    attributes = {"axis": axes[node.axis]}
    return permute(Node(Op.CONCAT, parts, shape, node.type, attributes, node.origin), axes)


@rule(op.RESHAPE(op.PERMUTE(x)))
def _sink_below_reshape(node: Node, x: Node) -> Node | None:
    """Rewrite reshape(permute(x)) as permute(reshape(x)) if only axes that are adjacent before the
    permutation merge and split.
    """
    axes = node.inputs[0].axes
    if 0 in node.shape:
        return None
    groups = match_axis_groups(tuple(x.shape[i] for i in axes), node.shape)
    candidates = []
    for old_axes, new_axes in groups:
        inner = [axes[i] for i in old_axes]
        if inner != list(range(inner[0], inner[0] + len(inner))) if inner else True:
            return None
        candidates.append((inner[0], new_axes))
    order = [j for _, new_axes in sorted(candidates) for j in new_axes]
    return permute(reshape(x, tuple(node.shape[j] for j in order)), invert_permutation(order))


_RULES = RuleSet(
    _sink_below_operation, _sink_below_reduce, _sink_below_pad, _sink_below_slice,
    _sink_below_expand, _sink_below_concat, _sink_below_reshape,
)
