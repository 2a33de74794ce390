"""one_pass_moments: mean and variance over rows (of a batch norm) by passing over them once.

Less the mean, numbers cannot be squared before it is known; less something near it they can, and
what that was is put right afterwards. Near it is the mean of a few rows; where these are a
convolution's, they are made by themselves before, so that the convolution can add up all others as
it makes them (column_sums).
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Fold, Scalar, Type
from ..ir.graph import Graph, Node, Op, apply, constant, rebuilt, reduce, same, window

LEAST = 1 << 16  # elements; fewer are read again in no time
SAMPLE = 8  # neighbouring rows whose mean is near that of all
WORTH = 16  # how many outputs a weight must have for a few to be made twice
Moments = tuple[Node, Node]


def one_pass_moments(graph: Graph) -> Graph:
    """The graph with sums of squared distances from the mean made along with the mean."""
    wanted = {id(sums): squares for squares, sums in map(_moments, graph.nodes()) if sums}
    second: dict[int, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if id(node) in second:
            return second[id(node)]
        made = same(node, inputs)
        if id(node) not in wanted:
            return made
        sums, squares = _shifted(made)
        second[id(wanted[id(node)])] = squares
        return sums

    return rebuilt(graph, rule)


def _moments(node: Node) -> tuple[Node, Node | None]:
    """For a sum of squared distances from a mean, the sum that this is made of."""
    if not _is_sum(node) or prod(node.inputs[0].shape) < LEAST:
        return node, None
    square = node.inputs[0]
    if square.op is not Op.APPLY or square.operation is not Scalar.MUL:
        return node, None
    a, b = square.inputs
    if a is not b or a.op is not Op.APPLY or a.operation is not Scalar.SUB:
        return node, None
    x, mean = a.inputs
    if mean.op is Op.EXPAND:
        mean = mean.inputs[0]
    if mean.op is not Op.APPLY or mean.operation is not Scalar.DIV:
        return node, None
    total = mean.inputs[0]
    good = _is_sum(total) and total.inputs[0] is x and total.axes == node.axes
    return node, total if good else None


def _is_sum(node: Node) -> bool:
    """Whether a node adds up all rows, and keeps columns."""
    return (
        node.op is Op.REDUCE and node.fold is Fold.SUM and node.type is Type.F32
        and node.axes == tuple(range(len(node.shape) - 1)) and len(node.shape) > 1
    )  # fmt: skip


def _shifted(total: Node) -> Moments:
    """The sum of all rows, and that of their squared distances from the mean."""
    (x,) = total.inputs
    one = (1,) * len(x.shape)
    count = constant(float(prod(x.shape[:-1])), Type.F32, one)
    few = _few(x)
    size = constant(float(prod(few.shape[:-1])), Type.F32, one)
    near = apply(Scalar.DIV, reduce(few, Fold.SUM, total.axes), size)
    apart = apply(Scalar.SUB, x, near)
    sums = reduce(apart, Fold.SUM, total.axes)
    squares = reduce(apply(Scalar.MUL, apart, apart), Fold.SUM, total.axes)
    whole = apply(Scalar.ADD, sums, apply(Scalar.MUL, near, count))
    less = apply(Scalar.DIV, apply(Scalar.MUL, sums, sums), count)
    zero = constant(0.0, Type.F32, one)
    rest = apply(Scalar.MAXIMUM, apply(Scalar.SUB, squares, less), zero)
    for node in (few, near, apart, sums, squares, whole, rest):
        node.origin = node.origin or total.origin
    return whole, rest


def _few(x: Node) -> Node:
    """A few rows: of a convolution, made from its inputs."""
    *outer, wide, columns = x.shape
    count = min(SAMPLE, wide)
    starts = [*(n // 2 for n in outer), (wide - count) // 2]
    shape = (*(1 for _ in outer), count, columns)
    if x.op is not Op.CONV or prod(x.inputs[1].shape) * WORTH > prod(x.shape):
        return window(x, (*starts, 0), (1,) * len(x.shape), shape)
    image, weight = x.inputs
    (down, right), (dh, dw) = x.stride, x.dilation
    kh, kw, *_ = weight.shape
    n, h, w = starts
    seen = window(image, (n, h * down, w * right, 0), (1,) * 4,
                  (1, (kh - 1) * dh + 1, (count - 1) * right + (kw - 1) * dw + 1, image.shape[3]))
    return Node(Op.CONV, (seen, weight), shape, x.type, x.attributes, x.origin)
