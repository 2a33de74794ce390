"""Split column sums so that the kernel that computes the values also adds them up.

For a bias gradient or batch statistics each thread adds the values that it computes to a row of its
own, and a short kernel adds the rows. The values are not read from memory again. Cost: one row of
sums per thread.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import ReduceOp, Type
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import MAX_SUM_CHAIN, SECOND_PASS_CACHED_BYTES, VECTOR_COLUMNS
from ..ir.graph import (
    CONTRACTIONS, Graph, Node, Op, reduce, reshape, sum_parts, with_origin,
)
from .pattern import RuleSet, capture, op, rule


def split_column_sums(graph: Graph) -> Graph:
    """Split the column sums that a producing kernel can accumulate."""
    return _RULES.rewrite(graph)


@rule(op.REDUCE(capture("a")))
def _split(node: Node, a: Node) -> Node | None:
    """Rewrite sum(a) as a sum of each thread's sum when the kernel of a can accumulate it."""
    if node.fold is not ReduceOp.SUM or node.type is not Type.F32:
        return None
    last = len(a.shape) - 1
    result_axes = [i for i, n in enumerate(node.shape) if n != 1]
    if result_axes != [last] or last in node.axes or node.shape[last] < VECTOR_COLUMNS:
        return None
    rows, parts = prod(a.shape[:last]), threads()
    if a.type.size * prod(a.shape) < SECOND_PASS_CACHED_BYTES or rows < VECTOR_COLUMNS * parts:
        return None
    axes = _inner_axes(a.shape, parts) if _is_computed_by_element(a) else None
    if axes is None:
        return None
    partial = sum_parts(a, axes, parts)
    outer_axes = [i + 1 for i in range(last) if i not in axes]
    total = reduce(partial, ReduceOp.SUM, [0, *outer_axes])
    return with_origin(node, reshape(total, node.shape), total, partial)


_RULES = RuleSet(_split)


def _is_computed_by_element(a: Node) -> bool:
    """Whether a kernel computes the values one by one, and so can add them as it goes."""
    while a.op is Op.RESHAPE and a.shape[-1] == a.inputs[0].shape[-1]:
        a = a.inputs[0]
    return a.op is Op.APPLY or a.op in CONTRACTIONS


def _inner_axes(shape: tuple[int, ...], parts: int) -> list[int] | None:
    """The axes to sum within a part; one axis is left for later where a chain would be too long."""
    axes = list(range(len(shape) - 1))
    rows = prod(shape[:-1]) // parts
    if rows <= MAX_SUM_CHAIN:
        return axes
    for axis in axes[1:]:
        if rows // shape[axis] <= MAX_SUM_CHAIN:
            return [i for i in axes if i != axis]
    return None
