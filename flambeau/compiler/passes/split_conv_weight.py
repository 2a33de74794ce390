"""weight_parts: gradients of small weights, of a part of the images by each thread.

A weight's gradient is a sum over all pixels. Threads that share out its channels and features all
spread out, or pack, the same images; with images of their own each does it for its own alone, and
the parts are added up by who reads the gradient.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Fold, Scalar
from ...native.runtime.thread_pool import threads
from ...native.target.load_balance import FEW, evenness
from ..ir.graph import Graph, Node, Op, apply, rebuilt, reduce, reshape, same, window

ADDED = 8  # parts that one expression adds up; more are folded
MOST = 64  # parts
ROUND = 0.04  # of the time, which each round of parts costs
SMALL = 16  # of what is read, which two parts may be together; of more threads none does more


def weight_parts(graph: Graph) -> Graph:
    """The graph with such gradients made in about as many parts as there are threads."""
    count = threads()
    return rebuilt(graph, lambda node, inputs: _in_parts(same(node, inputs), count))


def parts_for(images: int, threads: int) -> int:
    """How many parts of one size suit so many threads: as many as there are, or few rounds of
    which all have about as much to do; 1 where nothing does."""
    if threads <= FEW:
        return threads if images % threads == 0 else 1
    fit = [p for p in range(1, min(4 * threads, images, MOST) + 1) if images % p == 0]
    return max(fit, key=lambda p: evenness(p, threads) - ROUND * -(-p // threads))


def _in_parts(node: Node, threads: int) -> Node:
    if node.op is not Op.CONV_WEIGHT or node.groups != 1 or threads < 2:
        return node
    x, g = node.inputs
    parts = parts_for(g.shape[0], threads) if g.shape[0] else 1
    least = prod(node.shape) * min(parts, 4) * SMALL * -(-parts // threads)
    if 2 * parts <= threads or least > prod(x.shape) + prod(g.shape):
        return node
    *rest, features = node.shape
    made = Node(Op.CONV_WEIGHT, node.inputs, (*rest, parts * features), node.type,
                {**node.attributes, "parts": parts}, node.origin)  # fmt: skip
    return _folded(made, node, parts) if parts > ADDED else _added(made, node, parts)


def _added(made: Node, node: Node, parts: int) -> Node:
    """The sum of a few parts, as one expression."""
    features = node.shape[-1]
    total: Node | None = None
    for i in range(parts):
        one = window(made, (0, 0, 0, i * features), (1,) * 4, node.shape)
        total = one if total is None else apply(Scalar.ADD, total, one)
        total.origin = node.origin
    assert total is not None
    return total


def _folded(made: Node, node: Node, parts: int) -> Node:
    """The sum of many parts."""
    *rest, features = node.shape
    apart = reshape(made, (*rest, parts, features))
    total = reduce(apart, Fold.SUM, (3,))
    whole = reshape(total, node.shape)
    for one in (apart, total, whole):
        one.origin = node.origin
    return whole
