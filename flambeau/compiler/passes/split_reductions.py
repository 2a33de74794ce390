"""split_reductions: a long fold in two, so that threads can share the first and caches hold it.

A fold whose kept extents are few gives the threads nothing to share. One over leading axes (a bias
gradient, the statistics of a batch) is folded within each first index, then over these.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Fold
from ..ir.graph import Graph, Node, Op, rebuilt, reduce, reshape, same

LONG = 1 << 15  # elements; below, one thread is as fast
_SPLIT = (Fold.SUM, Fold.PRODUCT, Fold.MAXIMUM, Fold.MINIMUM, Fold.ANY, Fold.ALL)
LARGE = 1 << 20  # and from here on, even columns that threads could share are better cut
PARTS = 16


def split_reductions(graph: Graph) -> Graph:
    """The graph with long folds done in parts."""
    return rebuilt(graph, lambda node, inputs: _named(_split(same(node, inputs)), node.origin))


def _named(made: Node, origin: str) -> Node:
    """Tells a fold, and the parts that it is made of now, where they come from."""
    node = made
    while origin and not node.origin:
        node.origin = origin
        node = node.inputs[0] if node.inputs else made
    return made


def _split(node: Node) -> Node:
    if node.op is not Op.REDUCE or node.fold not in _SPLIT:
        return node
    (a,) = node.inputs
    if prod(a.shape) < LONG or prod(node.shape) * 4 > prod(a.shape):
        return node
    last = len(a.shape) - 1
    wide = [i for i in node.axes if a.shape[i] != 1]
    if not wide or (last in wide and prod(node.shape) >= PARTS):
        return node
    first = wide[0]
    if len(wide) > 1 and a.shape[first] >= 4:
        inner = reduce(a, node.fold, wide[1:])
        return reduce(inner, node.fold, [first])
    extent = a.shape[first]
    parts = next((p for p in (PARTS, 32, 8, 24, 12, 10, 6, 4, 2) if extent % p == 0), None)
    if parts is None or extent // parts < 32:
        return node
    if prod(node.shape) >= 256 and prod(a.shape) < LARGE:
        return node
    shape = (*a.shape[:first], parts, extent // parts, *a.shape[first + 1 :])
    inner = reduce(reshape(a, shape), node.fold, [i + (i >= first) for i in wide if i != first]
                   + [first + 1])  # fmt: skip
    return reshape(reduce(inner, node.fold, [first]), node.shape)
