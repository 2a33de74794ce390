"""Depthwise convolution kernels of any size, for images with channels innermost in memory.

Each input channel has one output channel. Tables list the rows and columns of x that each result
reads, as in pool_nhwc.py. Weights have channels innermost too.
"""

from __future__ import annotations

from functools import cache

from ..loop_ir.ir import (
    Accumulator, Apply, Begin, Buffer, Constant, If, Kernel, Load, Loop, LoopKind, ReduceOp, Scalar,
    Statement, Store, Type, Update,
)
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES
from .pool import compare, number
from .pool_nhwc import Pixels


@cache
def windows(type: Type) -> Kernel:
    """Build y = bias + sum over a window of x * weight. Buffers: x, rows, columns, weight, bias, y.

    Also computes the gradient of x: from y's gradient, with tables of the results that read x.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    weight, bias = Buffer(type, "weight"), Buffer(type, "bias")
    entry = p.at((p.i, "entries"), (p.j, "channels"), (p.v, POOLED_LANES), (p.lane, 1))
    product = Apply(Scalar.MUL, (p.met, Load(weight, entry, mask=p.known)), type)
    start = Load(bias, p.at((p.v, POOLED_LANES), (p.lane, 1)), mask=p.known)
    body = p.each_pixel([
        Begin(total, start), p.windows([Update(total, product)]),
        Store(p.y, p.place, total, mask=p.known),
    ])
    return p.kernel("depthwise_windows_last", [p.x, p.rows, p.columns, weight, bias, p.y], body)


@cache
def weight(type: Type) -> Kernel:
    """Build the gradient of the weight. Buffers: x, rows, columns, gy, gw. Parallel over channels
    and rows of the weight."""
    p, total = Pixels(type, columns=MAX_POOL_WINDOW_EXTENT), Accumulator(ReduceOp.SUM, type)
    gw = Buffer(type, "gw")
    entry = p.at((p.i, "entries"), (p.j, "channels"), (p.v, POOLED_LANES), (p.lane, 1))
    product = Apply(Scalar.MUL, (p.met, Load(p.y, p.place, mask=p.known)), type)
    clear = p.lanes([Store(gw, entry, Constant(type, 0.0), mask=p.known)])
    along = p.lanes([
        Begin(total), Loop(p.q, p.sizes["columns"], [Update(total, product)]),
        Store(gw, entry, total, mask=p.known, add=True),
    ])
    row: list[Statement] = [Loop(p.j, p.sizes["window"], [along])]
    there = If(compare(Scalar.GE, p.row, number(0)), row)
    images = Loop(p.image, p.sizes["images"], [Loop(p.r, p.sizes["rows"], [there])])
    rows = Loop(p.i, p.sizes["taps"], [Loop(p.j, p.sizes["window"], [clear]), images],
                LoopKind.PARALLEL)
    nest = Loop(p.v, p.sizes["vectors"], [rows], LoopKind.PARALLEL)
    return p.kernel("depthwise_weight_last", [p.x, p.rows, p.columns, p.y, gw], nest)


