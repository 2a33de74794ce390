"""Split reductions into parts that threads compute separately, and a total over the parts.

A sum with few results leaves threads no work to share, or makes each of them load all operands.
Rows, images or steps of the depth are split instead, and each thread loads only its part. Cost:
writing the parts and adding them, in a fixed order. The cost model (native/target/graph_costs.py)
chooses the number of parts.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    MAX_ADDED_PARTS, MAX_SUM_CHAIN, MIN_READ_RATIO, MIN_SPLIT_ELEMENTS, MIN_WIDE_SPLIT_ELEMENTS,
    PREFERRED_PARTS, SECOND_PASS_CACHED_BYTES, VECTOR_COLUMNS, WIDE_COLUMNS, choose_depth_split,
    choose_extent_parts, choose_image_parts,
)
from ...native.target.load_balance import count_shares
from ..ir.graph import (
    CONTRACTIONS, Graph, Node, Op, apply, matmul, permute, reduce, reshape, strided_slice,
    sum_parts, with_origin,
)
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
    """Split sums that their producers can accumulate, then all other long reductions."""
    return _OTHERS.rewrite(_COLUMN_SUMS.rewrite(graph))


def _combine(node: Node, fold: ReduceOp, partial: Node, axes: list[int], *new: Node) -> Node:
    """Reduce partial results to the value of `node`. `new`: other nodes they are built from."""
    total = reduce(partial, fold, axes)
    return with_origin(node, reshape(total, node.shape), total, partial, *new)


# ------------------------------------------------------- sums that a producing kernel accumulates


@rule(op.REDUCE(capture("a")))
def _split_column_sum(node: Node, a: Node) -> Node | None:
    """Rewrite sum(a) as a sum of each thread's sum if the kernel of a can accumulate it.

    For bias gradients and batch statistics: the values are not read from memory again.
    """
    if node.fold is not ReduceOp.SUM or node.type is not Type.F32:
        return None
    last = len(a.shape) - 1
    result_axes = [i for i, n in enumerate(node.shape) if n != 1]
    if result_axes != [last] or last in node.axes or node.shape[last] < VECTOR_COLUMNS:
        return None
    rows, parts = prod(a.shape[:last]), count_shares(threads())
    if a.type.size * prod(a.shape) < SECOND_PASS_CACHED_BYTES or rows < VECTOR_COLUMNS * parts:
        return None
    axes = _choose_inner_axes(a.shape, parts) if _is_computed_by_element(a) else None
    if axes is None:
        return None
    outer_axes = [i + 1 for i in range(last) if i not in axes]
    return _combine(node, ReduceOp.SUM, sum_parts(a, axes, parts), [0, *outer_axes])


def _is_computed_by_element(a: Node) -> bool:
    """Whether a kernel computes the values elementwise, and so can sum them as it runs."""
    while a.op is Op.RESHAPE and a.shape[-1] == a.inputs[0].shape[-1]:
        a = a.inputs[0]
    return a.op is Op.APPLY or a.op in CONTRACTIONS


def _choose_inner_axes(shape: tuple[int, ...], parts: int) -> list[int] | None:
    """The axes to sum within a part; leave one axis for later if a chain would be too long."""
    axes = list(range(len(shape) - 1))
    rows = prod(shape[:-1]) // parts
    if rows <= MAX_SUM_CHAIN:
        return axes
    for axis in axes[1:]:
        if rows // shape[axis] <= MAX_SUM_CHAIN:
            return [i for i in axes if i != axis]
    return None


# ----------------------------------------------------------------------------- weight gradients


@rule(op.CONV_WEIGHT(capture("x"), capture("g")))
def _split_conv_weight(node: Node, x: Node, g: Node) -> Node | None:
    """Rewrite a weight gradient as a sum over parts of the images if it is small beside them.

    Threads that split channels and features would all transform or pack the same images.
    """
    count = count_shares(threads())
    if node.groups != 1:
        return None
    parts = choose_image_parts(g.shape[0], count) if g.shape[0] else 1
    min_read = prod(node.shape) * min(parts, 4) * MIN_READ_RATIO * -(-parts // count)
    if 2 * parts <= count or min_read > prod(x.shape) + prod(g.shape):
        return None
    *rest, features = node.shape
    split = Node(Op.CONV_WEIGHT, node.inputs, (*rest, parts * features), node.type,
                 {**node.attributes, "parts": parts}, node.origin)
    if parts <= MAX_ADDED_PARTS:
        return _add_parts(split, node, parts)
    stacked = reshape(split, (*rest, parts, features))
    return _combine(node, ReduceOp.SUM, stacked, [3])


def _add_parts(split: Node, node: Node, parts: int) -> Node:
    """Sum a few parts as one expression, which fuses into its reader."""
    features = node.shape[-1]
    total: Node | None = None
    for i in range(parts):
        part = strided_slice(split, (0, 0, 0, i * features), (1,) * 4, node.shape)
        total = with_origin(node, part if total is None else apply(Scalar.ADD, total, part))
    assert total is not None
    return total


@rule(op.MATMUL())
def _split_depth(node: Node) -> Node | None:
    """Split-K: rewrite a @ b as a sum over parts of the depth if it has few tiles."""
    if node.type is not Type.F32 or prod(node.shape[:-2]) != 1:
        return None
    m, n, k = node.shape[-2], node.shape[-1], node.inputs[0].shape[-1]
    parts, blocks = choose_depth_split(m, n, k, threads())
    if parts == 1:
        return None
    a, b = node.inputs
    rows = reshape(a, (blocks, m // blocks, parts, k // parts))
    left, right = permute(rows, (2, 0, 1, 3)), reshape(b, (parts, 1, k // parts, n))
    partial = matmul(left, right, node.precision)
    return _combine(node, ReduceOp.SUM, partial, [0], left, right, rows)


# ------------------------------------------------------------------------------ other reductions


@rule(op.REDUCE(capture("a")))
def _split_reduction(node: Node, a: Node) -> Node | None:
    """Rewrite reduce(a) as a reduction of partial reductions if it is long and has few results.

    A reduction over several axes first reduces within each leading index, so that caches hold its
    input.
    """
    if node.fold not in _SPLITTABLE:
        return None
    if prod(a.shape) < MIN_SPLIT_ELEMENTS or prod(node.shape) * 4 > prod(a.shape):
        return None
    last = len(a.shape) - 1
    nonunit = [i for i in node.axes if a.shape[i] != 1]
    if not nonunit or (last in nonunit and prod(node.shape) >= PREFERRED_PARTS):
        return None
    first = nonunit[0]
    if len(nonunit) > 1 and a.shape[first] >= 4:
        inner = reduce(a, node.fold, nonunit[1:])
        return with_origin(node, reduce(inner, node.fold, [first]), inner)
    extent = a.shape[first]
    parts = choose_extent_parts(extent)
    if parts == 1 or (
            prod(node.shape) >= WIDE_COLUMNS and prod(a.shape) < MIN_WIDE_SPLIT_ELEMENTS):
        return None
    shape = (*a.shape[:first], parts, extent // parts, *a.shape[first + 1 :])
    inner_axes = [i + (i >= first) for i in nonunit if i != first] + [first + 1]
    parted = reshape(a, shape)
    inner = reduce(parted, node.fold, inner_axes)
    return _combine(node, node.fold, inner, [first], parted)


_COLUMN_SUMS = RuleSet(_split_column_sum)
_OTHERS = RuleSet(_split_conv_weight, _split_depth, _split_reduction)
