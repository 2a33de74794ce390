"""weight_parts: gradients of small weights, of a part of the images by each thread.

A weight's gradient is a sum over all pixels. Threads that share out its channels and features all
spread out, or pack, the same images; with images of their own each does it for its own alone, and
the parts are added up by who reads the gradient.
"""

from __future__ import annotations

from math import prod

from ...native.loops import Scalar
from ...native.pool import threads
from ..graph import Graph, Node, Op, apply, rebuilt, same, window

MOST = 8  # parts: more are read again by one kernel
SMALL = 16  # of what is read, which share the parts may be together


def weight_parts(graph: Graph) -> Graph:
    """The graph with such gradients made in as many parts as there are threads."""
    parts = threads()
    return rebuilt(graph, lambda node, inputs: _in_parts(same(node, inputs), parts))


def _in_parts(node: Node, parts: int) -> Node:
    if node.op is not Op.CONV_WEIGHT or node.groups != 1 or not 1 < parts <= MOST:
        return node
    x, g = node.inputs
    if g.shape[0] % parts or prod(node.shape) * parts * SMALL > prod(x.shape) + prod(g.shape):
        return node
    *rest, features = node.shape
    made = Node(Op.CONV_WEIGHT, node.inputs, (*rest, parts * features), node.type,
                {**node.attributes, "parts": parts}, node.origin)  # fmt: skip
    total: Node | None = None
    for i in range(parts):
        one = window(made, (0, 0, 0, i * features), (1,) * 4, node.shape)
        total = one if total is None else apply(Scalar.ADD, total, one)
        total.origin = node.origin
    assert total is not None
    return total
