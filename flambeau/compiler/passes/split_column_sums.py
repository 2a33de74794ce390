"""column_sums: sums over all rows of what a kernel makes, for that kernel to add up as it goes.

A bias's gradient, the statistics of a batch: each thread adds what it makes to a row of its own,
and the rows are added up afterwards; so what was made is not read once more.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Fold, Type
from ...native.runtime.thread_pool import threads
from ..ir.graph import Graph, Node, Op, rebuilt, reduce, reshape, same, sum_parts
from ..ir.graph import CONTRACTIONS

LEAST = 1 << 16  # elements; fewer are read again in no time
LANES = 16  # columns that fill a vector
CHAIN = 4096  # numbers that are added up one after another, at most: errors grow with them


def column_sums(graph: Graph) -> Graph:
    """The graph with sums of columns made in parts, where their kernel can make them."""
    parts = threads()
    return rebuilt(graph, lambda node, inputs: _in_parts(same(node, inputs), parts))


def _in_parts(node: Node, parts: int) -> Node:
    if node.op is not Op.REDUCE or node.fold is not Fold.SUM or node.type is not Type.F32:
        return node
    (a,) = node.inputs
    kept = [i for i, n in enumerate(node.shape) if n != 1]
    last = len(a.shape) - 1
    if kept != [last] or last in node.axes or node.shape[last] < LANES or not _is_made(a):
        return node
    rows = prod(a.shape[:last])
    if prod(a.shape) < LEAST or rows < LANES * parts:
        return node
    axes = _folded(a.shape, parts)
    if axes is None:
        return node
    inner = sum_parts(a, axes, parts)
    rest = [i + 1 for i in range(last) if i not in axes]
    made = reshape(reduce(inner, Fold.SUM, [0, *rest]), node.shape)
    for one in (made, *made.inputs, inner):
        one.origin = one.origin or node.origin
    return made


def _is_made(a: Node) -> bool:
    """Whether a kernel works out values element by element, so that it can add them up too."""
    while a.op is Op.RESHAPE and a.shape[-1] == a.inputs[0].shape[-1]:
        a = a.inputs[0]
    return a.op is Op.APPLY or a.op in CONTRACTIONS


def _folded(shape: tuple[int, ...], parts: int) -> list[int] | None:
    """The axes to be folded within the parts: one is left for later where sums would be long."""
    axes = list(range(len(shape) - 1))
    rows = prod(shape[:-1]) // parts
    if rows <= CHAIN:
        return axes
    for axis in axes[1:]:
        if rows // shape[axis] <= CHAIN:
            return [one for one in axes if one != axis]
    return None
