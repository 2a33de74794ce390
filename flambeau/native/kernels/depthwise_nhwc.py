"""Depthwise convolution kernels of any size, for images with channels innermost in memory.

Each input channel has one output channel. Tables list the rows and columns of x that each result
reads, as in pool_nhwc.py. Weights have channels innermost too.
"""

from __future__ import annotations

from functools import cache

from ..loop_ir.expression_builder import Value, constant
from ..loop_ir.index_notation import nest, repeat, update
from ..loop_ir.ir import Accumulator, Begin, Buffer, If, Kernel, LoopKind, ReduceOp, Type
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from .pool_nhwc import Pixels


@cache
def build_forward(type: Type) -> Kernel:
    """Build y = bias + sum over a window of x * weight. Buffers: x, rows, columns, weight, bias, y.

    Also computes the gradient of x: from y's gradient, with tables of the results that read x.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    weight, bias = Buffer(type, "weight"), Buffer(type, "bias")
    body = p.each_pixel(
        Begin(total, p.load(bias, p.channel).expression),
        p.windows(update(total, p.x_element * p.load(weight, p.weight_index))),
        p.store(p.y, p.result_index, Value(total)))
    return p.kernel("depthwise_windows_last", [p.x, p.rows, p.columns, weight, bias, p.y], body)


@cache
def build_weight_gradient(type: Type) -> Kernel:
    """Build the gradient of the weight. Buffers: x, rows, columns, gy, gw. Parallel over channels
    and rows of the weight."""
    p, total = Pixels(type, columns=MAX_POOL_WINDOW_EXTENT), Accumulator(ReduceOp.SUM, type)
    z, gw = p.sizes, Buffer(type, "gw")
    clear = repeat(p.tap_column, z.window_columns,
                   p.lanes(p.store(gw, p.weight_index, constant(0.0, type))))
    along = p.lanes(
        Begin(total),
        repeat(p.column, z.columns, update(total, p.x_element * p.load(p.y, p.result_index))),
        p.store(gw, p.weight_index, Value(total), add=True))
    guarded = If((p.x_row >= 0).expression, [repeat(p.tap_column, z.window_columns, along)])
    images = nest([guarded], (p.image, z.images), (p.row, z.rows), kind=LoopKind.SERIAL)
    body = nest([clear, images], (p.vector, z.vectors), (p.tap_row, z.window_rows))
    return p.kernel("depthwise_weight_last", [p.x, p.rows, p.columns, p.y, gw], body)
