"""few_pixels: convolutions that give few pixels, as products of the weight and their windows.

A convolution packs its weight into panels, which pays when many pixels read them. Where there are
few, as in the late layers of a network that looks at one image, the weight is what is large: as the
left side of a product it is read once, where it lies, and the image's windows are written out.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import Type
from ..ir.graph import Graph, Node, Op, concat, matmul, pad, permute, rebuilt, reshape, same, window

LARGE = 1 << 17  # elements of a weight from which on packing it takes long
FEW = 128  # pixels of all images
MORE = 256  # where the weight is not huge, nor its gradient wanted, which reads channels last
HUGE = 1 << 20  # elements
TAPS = 25  # windows that are written out one by one


def few_pixels(graph: Graph) -> Graph:
    """The graph with such convolutions made products."""
    operations = {node.op for node in graph.nodes()}
    if Op.CONV not in operations:
        return graph
    most = FEW if Op.CONV_WEIGHT in operations else MORE

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = same(node, inputs)
        return _product(made) if node.op is Op.CONV and _suits(made, most) else made

    return rebuilt(graph, rule)


def _suits(node: Node, most: int) -> bool:
    """Whether a convolution has few pixels beside a large weight, which lies as operators have it.

    Those of groups are not one product.
    """
    _, w = node.inputs
    pixels, size = prod(node.shape[:3]), prod(w.shape)
    return (
        node.type in (Type.F32, Type.F64) and node.groups == 1
        and w.op is Op.PERMUTE and w.axes == (2, 3, 1, 0) and prod(w.shape[:2]) <= TAPS
        and size >= LARGE and 1 < pixels <= (FEW if size >= HUGE else most)
    )  # fmt: skip


def _product(node: Node) -> Node:
    """weight (o, c * taps) @ windows (c * taps, pixels), seen as (n, h, w, o)."""
    x, w = node.inputs
    weight = w.inputs[0]
    features, channels, *kernel = weight.shape
    images, *size, _ = node.shape
    pixels = images * prod(size)
    planes = permute(_channels_first(x), (1, 0, 2, 3))
    taps = [(u * node.dilation[0], v * node.dilation[1])
            for u in range(kernel[0]) for v in range(kernel[1])]  # fmt: skip
    seen = [window(planes, (0, 0, *tap), (1, 1, *node.stride), (channels, images, *size))
            for tap in taps]  # fmt: skip
    windows = concat([reshape(one, (channels, 1, pixels)) for one in seen], 1)
    depth = channels * len(taps)
    product = matmul(reshape(weight, (features, depth)), reshape(windows, (depth, pixels)))
    product.origin = node.origin
    return permute(reshape(product, (features, images, *size)), (1, 2, 3, 0))


def _channels_first(x: Node) -> Node:
    """An image (n, h, w, c), most often a padded and permuted one, as (n, c, h, w)."""
    if x.op is Op.PAD:
        low, high = (tuple(v[i] for i in (0, 3, 1, 2)) for v in (x.low, x.high))
        return pad(_channels_first(x.inputs[0]), low, high)
    if x.op is Op.PERMUTE and x.axes == (0, 2, 3, 1):
        return x.inputs[0]
    return permute(x, (0, 3, 1, 2))
