"""Split convolution weight gradients over the images, one part per thread.

A weight gradient is a sum over all pixels. Threads that share its channels and features all
transform or pack the same images; threads that own images do that work once. Whoever reads the
gradient adds the parts. Cost: as many copies of the gradient as there are parts.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import ReduceOp, Scalar
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    MAX_ADDED_PARTS, MAX_WEIGHT_PARTS, MIN_READ_RATIO, RELATIVE_COST_PER_ROUND,
)
from ...native.target.load_balance import TYPICAL_THREADS, utilization
from ..ir.graph import Graph, Node, Op, apply, reduce, reshape, strided_slice, with_origin
from .pattern import RuleSet, capture, op, rule


def split_conv_weight_gradients(graph: Graph) -> Graph:
    """Split small weight gradients into about as many parts as there are threads."""
    return _RULES.rewrite(graph)


def choose_part_count(images: int, threads: int) -> int:
    """How many equal parts keep the threads evenly busy in few rounds; 1 where none does."""
    if threads <= TYPICAL_THREADS:
        return threads if images % threads == 0 else 1
    most = min(4 * threads, images, MAX_WEIGHT_PARTS)
    divisors = [p for p in range(1, most + 1) if images % p == 0]

    def gain(parts: int) -> float:
        return utilization(parts, threads) - RELATIVE_COST_PER_ROUND * -(-parts // threads)

    return max(divisors, key=gain)


@rule(op.CONV_WEIGHT(capture("x"), capture("g")))
def _split(node: Node, x: Node, g: Node) -> Node | None:
    """Rewrite a weight gradient as a sum of parts of the images when it is small beside them."""
    count = threads()
    if node.groups != 1 or count < 2:
        return None
    parts = choose_part_count(g.shape[0], count) if g.shape[0] else 1
    min_read = prod(node.shape) * min(parts, 4) * MIN_READ_RATIO * -(-parts // count)
    if 2 * parts <= count or min_read > prod(x.shape) + prod(g.shape):
        return None
    *rest, features = node.shape
    split = Node(Op.CONV_WEIGHT, node.inputs, (*rest, parts * features), node.type,
                 {**node.attributes, "parts": parts}, node.origin)
    combine = _reduce_parts if parts > MAX_ADDED_PARTS else _add_parts
    return combine(split, node, parts)


def _add_parts(split: Node, node: Node, parts: int) -> Node:
    """The sum of a few parts as one expression, which fuses into its reader."""
    features = node.shape[-1]
    total: Node | None = None
    for i in range(parts):
        part = strided_slice(split, (0, 0, 0, i * features), (1,) * 4, node.shape)
        total = with_origin(node, part if total is None else apply(Scalar.ADD, total, part))
    assert total is not None
    return total


def _reduce_parts(split: Node, node: Node, parts: int) -> Node:
    """The sum of many parts as a reduction."""
    *rest, features = node.shape
    stacked = reshape(split, (*rest, parts, features))
    total = reduce(stacked, ReduceOp.SUM, (3,))
    return with_origin(node, reshape(total, node.shape), total, stacked)


_RULES = RuleSet(_split)
