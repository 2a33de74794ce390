"""Products of 8-bit integers: rows of unsigned bytes, four per int32 element, by packed weights.

The weights lie in panels of `panel_columns()` columns: panel, quad of the depth, column. Nothing is
packed at run time; a panel stays in the nearest caches while all rows are multiplied by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Constant, Contract, Expression, Extent, Index, Kernel,
    Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type,
)
from ..target.cost_model import BYTE_PRODUCT_TILES
from ..target.machine import host


def panel_columns() -> int:
    """Return how many weight columns a panel has on this machine."""
    return BYTE_PRODUCT_TILES[host().vector_registers][1] * host().lanes(Type.I32)


@dataclass(frozen=True)
class ByteProductForm:
    """The form of a byte product; products of one form share a kernel.

    `columns`: of a panel. `rows`: their number, for the few counts with specialized kernels. `low`:
    no byte of a is above 127. `integers`: the result is the int32 sums. `whole`: all panels are
    full; else there is a single, partial one.
    """

    columns: int
    rows: int | None
    low: bool
    integers: bool
    whole: bool


def build_byte_product(form: ByteProductForm) -> Kernel:
    """c = a @ b - corrections; unless `integers`, times multipliers, plus bias, in float32.

    Buffers: a (rows, quads) and b (panels, quads, columns) of quads, corrections (n), then
    multipliers and bias (n) for float32, c (rows, n). Sizes: rows, quads of the depth, elements
    between rows of c, panels, elements of a panel, columns of a panel that is not full.
    """
    m, quads, apart, panels, step, tail = (
        Size(name) for name in ("m", "quads", "apart", "panels", "step", "tail"))
    a, b, corrections = (Buffer(Type.I32, name) for name in ("a", "b", "corrections"))
    per_column = [] if form.integers else [Buffer(Type.F32, n) for n in ("multipliers", "bias")]
    c = Buffer(Type.I32 if form.integers else Type.F32, "c")
    panel, row, column, quad = (Index(name) for name in ("panel", "row", "column", "quad"))
    place: tuple[tuple[Index, Extent], ...] = ((column, 1),)
    if form.whole:
        place = ((panel, form.columns), (column, 1))
    sums = Accumulator(ReduceOp.SUM, Type.I32)
    value: Expression = Apply(
        Scalar.SUB, (sums, Load(corrections, Affine(0, place))), Type.I32)
    if per_column:
        multipliers, bias = (Load(buffer, Affine(0, place)) for buffer in per_column)
        value = Apply(Scalar.FMA, (Apply(Scalar.CAST, (value,), Type.F32), multipliers, bias),
                      Type.F32)
    weights: tuple[tuple[Index, Extent], ...] = ((quad, form.columns), (column, 1))
    extent: Extent = form.columns if form.whole else tail
    body: list[Statement] = [Contract(
        (Axis(row, m if form.rows is None else form.rows),), Axis(column, extent),
        (Axis(quad, quads),), Load(a, Affine(0, ((row, quads), (quad, 1)))),
        Load(b, Affine(0, ((panel, step), *weights) if form.whole else weights)), sums,
        [Store(c, Affine(0, ((row, apart), *place)), value)],
        product=Scalar.DOT_LOW_BYTES if form.low else Scalar.DOT_BYTES,
    )]
    if form.whole:
        body = [Loop(panel, panels, body, LoopKind.PARALLEL)]
    return Kernel("byte_product", [a, b, corrections, *per_column, c], body,
                  [m, quads, apart, panels, step, tail])


def quantize_bytes() -> Kernel:
    """y = round(x / scale + zero point) as unsigned bytes, halves to even, NaN as 255.

    Buffers: x (rows, k) of float32, 1 / scale and the zero point, y (rows, padded k). Sizes: rows,
    k, bytes between rows of y.
    """
    rows, k, apart = (Size(name) for name in ("rows", "k", "apart"))
    x, parameters = Buffer(Type.F32, "x"), Buffer(Type.F32, "parameters")
    y = Buffer(Type.U8, "y")
    row, column = Index("row"), Index("column")

    def apply(operation: Scalar, *values: Expression, type: Type = Type.F32) -> Expression:
        return Apply(operation, values, type)

    inverse, zero = (Load(parameters, Affine(i)) for i in (0, 1))
    steps = apply(Scalar.ROUND, apply(
        Scalar.FMA, Load(x, Affine(0, ((row, k), (column, 1)))), inverse, zero))
    low, high = Constant(Type.F32, 0.0), Constant(Type.F32, 255.0)
    below = apply(Scalar.LT, steps, high, type=Type.BOOL)
    above = apply(Scalar.GT, steps, low, type=Type.BOOL)
    clipped = apply(Scalar.WHERE, below, apply(Scalar.WHERE, above, steps, low), high)
    byte = apply(Scalar.CAST, apply(Scalar.CAST, clipped, type=Type.I32), type=Type.U8)
    store = Store(y, Affine(0, ((row, apart), (column, 1))), byte)
    inner = Loop(column, k, [store], LoopKind.VECTORIZED)
    return Kernel("quantize_bytes", [x, parameters, y],
                  [Loop(row, rows, [inner], LoopKind.PARALLEL)], [rows, k, apart])
