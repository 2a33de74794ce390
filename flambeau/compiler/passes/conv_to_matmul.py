"""Rewrite convolutions with few output pixels as a product of the weight and the image windows.

A convolution packs its weight into panels, which pays off if many pixels read them. With few
pixels, as in the late layers of a network on a single image, the weight dominates: as the left
operand of a product it is read once, in place. Cost: the image windows are written to memory.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Type
from ...native.target.graph_costs import (
    HUGE_WEIGHT_ELEMENTS, LARGE_WEIGHT_ELEMENTS, MAX_MATMUL_PIXELS, MAX_MATMUL_PIXELS_INFERENCE,
    MAX_MATMUL_TAPS,
)
from ..ir.graph import (
    Graph, Node, Op, concat, matmul, pad, permute, reshape, strided_slice, with_origin,
)
from .pattern import Rule, RuleSet, op


def convert_small_conv_to_matmul(graph: Graph) -> Graph:
    """Rewrite each convolution for which `_is_profitable` holds."""
    operations = {node.op for node in graph.nodes()}
    if Op.CONV not in operations:
        return graph
    max_pixels = MAX_MATMUL_PIXELS if Op.CONV_WEIGHT in operations else MAX_MATMUL_PIXELS_INFERENCE

    def convert(node: Node) -> Node | None:
        return _build_matmul(node) if _is_profitable(node, max_pixels) else None

    return RuleSet(Rule(op.CONV(), convert)).rewrite(graph)


def _is_profitable(node: Node, max_pixels: int) -> bool:
    """Whether a convolution has few pixels and a large weight stored as (o, c, h, w).

    A grouped convolution is not a single product.
    """
    _, w = node.inputs
    pixels, size = prod(node.shape[:3]), prod(w.shape)
    limit = MAX_MATMUL_PIXELS if size >= HUGE_WEIGHT_ELEMENTS else max_pixels
    return (
        node.type in (Type.F32, Type.F64) and node.groups == 1
        and w.op is Op.PERMUTE and w.axes == (2, 3, 1, 0) and prod(w.shape[:2]) <= MAX_MATMUL_TAPS
        and size >= LARGE_WEIGHT_ELEMENTS and 1 < pixels <= limit
    )


def _build_matmul(node: Node) -> Node:
    """weight (o, c * taps) @ windows (c * taps, pixels), viewed as (n, h, w, o)."""
    x, w = node.inputs
    weight = w.inputs[0]
    features, channels, *kernel = weight.shape
    images, *size, _ = node.shape
    pixels = images * prod(size)
    planes = permute(_move_channels_first(x), (1, 0, 2, 3))
    taps = [(u * node.dilation[0], v * node.dilation[1])
            for u in range(kernel[0]) for v in range(kernel[1])]
    slices = [strided_slice(planes, (0, 0, *tap), (1, 1, *node.stride), (channels, images, *size))
              for tap in taps]
    windows = concat([reshape(a, (channels, 1, pixels)) for a in slices], 1)
    depth = channels * len(taps)
    rows, columns = reshape(weight, (features, depth)), reshape(windows, (depth, pixels))
    product = with_origin(node, matmul(rows, columns))
    return permute(reshape(product, (features, images, *size)), (1, 2, 3, 0))


def _move_channels_first(x: Node) -> Node:
    """An image (n, h, w, c) as (n, c, h, w), undoing the usual pad and permutation."""
    if x.op is Op.PAD:
        low, high = (tuple(v[i] for i in (0, 3, 1, 2)) for v in (x.low, x.high))
        return pad(_move_channels_first(x.inputs[0]), low, high)
    if x.op is Op.PERMUTE and x.axes == (0, 2, 3, 1):
        return x.inputs[0]
    return permute(x, (0, 3, 1, 2))
