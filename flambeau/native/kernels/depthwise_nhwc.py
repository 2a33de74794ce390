"""Depthwise convolution kernels of any size, for images with channels innermost in memory.

Each input channel has one output channel. Tables list the rows and columns of x that each result
reads, as in pool_nhwc.py. Weights have channels innermost too.
"""

from __future__ import annotations

from functools import cache

from ..loop_ir.ir import (
    Accumulator,
    Apply,
    Begin,
    Buffer,
    Constant,
    If,
    Kernel,
    Load,
    Loop,
    LoopKind,
    ReduceOp,
    Scalar,
    Statement,
    Store,
    Type,
    Update,
)
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES
from .pool import compare, number
from .pool_nhwc import Pixels


@cache
def build_forward(type: Type) -> Kernel:
    """Build y = bias + sum over a window of x * weight. Buffers: x, rows, columns, weight, bias, y.

    Also computes the gradient of x: from y's gradient, with tables of the results that read x.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    weight, bias = Buffer(type, "weight"), Buffer(type, "bias")
    entry = p.affine(
        (p.tap_row, "weight_row_stride"),
        (p.tap_column, "channels"),
        (p.vector, POOLED_LANES),
        (p.lane, 1),
    )
    product = Apply(Scalar.MUL, (p.x_element, Load(weight, entry, mask=p.lane_mask)), type)
    start = Load(bias, p.affine((p.vector, POOLED_LANES), (p.lane, 1)), mask=p.lane_mask)
    body = p.each_pixel(
        [
            Begin(total, start),
            p.windows([Update(total, product)]),
            Store(p.y, p.result_index, total, mask=p.lane_mask),
        ]
    )
    return p.kernel("depthwise_windows_last", [p.x, p.rows, p.columns, weight, bias, p.y], body)


@cache
def build_weight_gradient(type: Type) -> Kernel:
    """Build the gradient of the weight. Buffers: x, rows, columns, gy, gw. Parallel over channels
    and rows of the weight."""
    p, total = Pixels(type, columns=MAX_POOL_WINDOW_EXTENT), Accumulator(ReduceOp.SUM, type)
    gw = Buffer(type, "gw")
    entry = p.affine(
        (p.tap_row, "weight_row_stride"),
        (p.tap_column, "channels"),
        (p.vector, POOLED_LANES),
        (p.lane, 1),
    )
    product = Apply(Scalar.MUL, (p.x_element, Load(p.y, p.result_index, mask=p.lane_mask)), type)
    clear = p.lanes([Store(gw, entry, Constant(type, 0.0), mask=p.lane_mask)])
    along = p.lanes(
        [
            Begin(total),
            Loop(p.column, p.sizes["columns"], [Update(total, product)]),
            Store(gw, entry, total, mask=p.lane_mask, add=True),
        ]
    )
    row: list[Statement] = [Loop(p.tap_column, p.sizes["window_columns"], [along])]
    guarded = If(compare(Scalar.GE, p.x_row, number(0)), row)
    images = Loop(p.image, p.sizes["images"], [Loop(p.row, p.sizes["rows"], [guarded])])
    rows = Loop(
        p.tap_row,
        p.sizes["window_rows"],
        [Loop(p.tap_column, p.sizes["window_columns"], [clear]), images],
        LoopKind.PARALLEL,
    )
    nest = Loop(p.vector, p.sizes["vectors"], [rows], LoopKind.PARALLEL)
    return p.kernel("depthwise_weight_last", [p.x, p.rows, p.columns, p.y, gw], nest)
