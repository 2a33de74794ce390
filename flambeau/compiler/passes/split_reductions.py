"""Split long reductions in two, so that threads share the first and caches hold its input.

A reduction with few results gives threads nothing to share. One over leading axes (a bias gradient,
batch statistics) is reduced within each leading index first, then over these. Cost: one more kernel
and the partial results.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import ReduceOp
from ...native.target.graph_costs import (
    MIN_EXTENT_PER_PART, MIN_SPLIT_ELEMENTS, MIN_WIDE_SPLIT_ELEMENTS, PART_COUNTS,
    PREFERRED_PARTS, WIDE_COLUMNS,
)
from ..ir.graph import Graph, Node, reduce, reshape, with_origin
from .pattern import RuleSet, capture, op, rule

_SPLITTABLE = (
    ReduceOp.SUM,
    ReduceOp.PRODUCT,
    ReduceOp.MAXIMUM,
    ReduceOp.MINIMUM,
    ReduceOp.ANY,
    ReduceOp.ALL,
)


def split_reductions(graph: Graph) -> Graph:
    """Rewrite each long reduction as a reduction of partial reductions."""
    return _RULES.rewrite(graph)


@rule(op.REDUCE(capture("a")))
def _split(node: Node, a: Node) -> Node | None:
    """Rewrite reduce(a) as a reduction of partial reductions when it is long and has few results.
    """
    if node.fold not in _SPLITTABLE:
        return None
    if prod(a.shape) < MIN_SPLIT_ELEMENTS or prod(node.shape) * 4 > prod(a.shape):
        return None
    last = len(a.shape) - 1
    wide = [i for i in node.axes if a.shape[i] != 1]
    if not wide or (last in wide and prod(node.shape) >= PREFERRED_PARTS):
        return None
    first = wide[0]
    if len(wide) > 1 and a.shape[first] >= 4:
        inner = reduce(a, node.fold, wide[1:])
        return with_origin(node, reduce(inner, node.fold, [first]), inner)
    extent = a.shape[first]
    parts = next((p for p in PART_COUNTS if extent % p == 0), None)
    if parts is None or extent // parts < MIN_EXTENT_PER_PART:
        return None
    if prod(node.shape) >= WIDE_COLUMNS and prod(a.shape) < MIN_WIDE_SPLIT_ELEMENTS:
        return None
    shape = (*a.shape[:first], parts, extent // parts, *a.shape[first + 1 :])
    inner_axes = [i + (i >= first) for i in wide if i != first] + [first + 1]
    parted = reshape(a, shape)
    inner = reduce(parted, node.fold, inner_axes)
    total = reduce(inner, node.fold, [first])
    return with_origin(node, reshape(total, node.shape), total, inner, parted)


_RULES = RuleSet(_split)
