"""Compute mean and variance over rows (batch norm) in one pass instead of two.

Sum the squared distances from an estimate e of the mean, and correct afterwards: var * n = sum((x -
e)^2) - sum(x - e)^2 / n. The estimate is the mean of a few rows, which avoids cancellation if the
mean is far from zero. Rows of a convolution are computed a second time for the estimate, so that
the convolution can accumulate both sums as it runs (split_reductions).
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ...native.target.graph_costs import (
    MIN_OUTPUTS_PER_WEIGHT, MOMENT_SAMPLE_ROWS, SECOND_PASS_CACHED_BYTES,
)
from ..ir.graph import (
    Graph, Node, Op, apply, constant, is_operation, reduce, rewrite, strided_slice, with_inputs,
    with_origin,
)

Moments = tuple[Node, Node]


def compute_moments_in_one_pass(graph: Graph) -> Graph:
    """Rewrite each sum of squared distances from a mean together with that mean's sum."""
    squares_of = {id(sums): squares for squares, sums in map(_match_variance, graph.nodes())
                  if sums}
    replaced: dict[int, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if id(node) in replaced:
            return replaced[id(node)]
        new = with_inputs(node, inputs)
        if id(node) not in squares_of:
            return new
        sums, squares = _compute_shifted_moments(new)
        replaced[id(squares_of[id(node)])] = squares
        return sums

    return rewrite(graph, rule)


def _match_variance(node: Node) -> tuple[Node, Node | None]:
    """Return sum((x - mean)^2) and the sum behind the mean; None instead for any other node."""
    if not _is_row_sum(node):
        return node, None
    square = node.inputs[0]
    if square.type.size * prod(square.shape) < SECOND_PASS_CACHED_BYTES:
        return node, None
    if not is_operation(square, Scalar.MUL):
        return node, None
    a, b = square.inputs
    if a is not b or not is_operation(a, Scalar.SUB):
        return node, None
    x, mean = a.inputs
    if mean.op is Op.EXPAND:
        mean = mean.inputs[0]
    if not is_operation(mean, Scalar.DIV):
        return node, None
    total = mean.inputs[0]
    matches = _is_row_sum(total) and total.inputs[0] is x and total.axes == node.axes
    return node, total if matches else None


def _is_row_sum(node: Node) -> bool:
    """Whether a node sums over all axes but the last."""
    return (
        node.op is Op.REDUCE and node.fold is ReduceOp.SUM and node.type is Type.F32
        and node.axes == tuple(range(len(node.shape) - 1)) and len(node.shape) > 1
    )


def _compute_shifted_moments(total: Node) -> Moments:
    """The sum of all rows, and the sum of their squared distances from the mean."""
    (x,) = total.inputs
    unit = (1,) * len(x.shape)
    count = constant(float(prod(x.shape[:-1])), Type.F32, unit)
    sample = _sample_rows(x)
    sample_count = constant(float(prod(sample.shape[:-1])), Type.F32, unit)
    estimate = apply(Scalar.DIV, reduce(sample, ReduceOp.SUM, total.axes), sample_count)
    distance = apply(Scalar.SUB, x, estimate)
    sums = reduce(distance, ReduceOp.SUM, total.axes)
    squares = reduce(apply(Scalar.MUL, distance, distance), ReduceOp.SUM, total.axes)
    row_sum = apply(Scalar.ADD, sums, apply(Scalar.MUL, estimate, count))
    correction = apply(Scalar.DIV, apply(Scalar.MUL, sums, sums), count)
    zero = constant(0.0, Type.F32, unit)
    squared = apply(Scalar.MAXIMUM, apply(Scalar.SUB, squares, correction), zero)
    with_origin(total, row_sum, squared, squares, sums, distance, estimate, sample)
    return row_sum, squared


def _sample_rows(x: Node) -> Node:
    """Adjacent rows from the middle; rows of a convolution are computed from its inputs."""
    *outer, middle, columns = x.shape
    count = min(MOMENT_SAMPLE_ROWS, middle)
    starts = [*(n // 2 for n in outer), (middle - count) // 2]
    shape = (*(1 for _ in outer), count, columns)
    if x.op is not Op.CONV or prod(x.inputs[1].shape) * MIN_OUTPUTS_PER_WEIGHT > prod(x.shape):
        return strided_slice(x, (*starts, 0), (1,) * len(x.shape), shape)
    image, weight = x.inputs
    (down, right), (dh, dw) = x.stride, x.dilation
    kh, kw, *_ = weight.shape
    n, h, w = starts
    region = (1, (kh - 1) * dh + 1, (count - 1) * right + (kw - 1) * dw + 1, image.shape[3])
    seen = strided_slice(image, (n, h * down, w * right, 0), (1,) * 4, region)
    return Node(Op.CONV, (seen, weight), shape, x.type, x.attributes, x.origin)
