"""Products of 8-bit integers: rows of unsigned bytes, four per int32 element, by packed weights.

The weights lie in panels of `panel_columns()` columns: panel, quad of the depth, column. Nothing is
packed at run time; a panel stays in the nearest caches while all rows are multiplied by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..loop_ir.expression_builder import Value, apply, where
from ..loop_ir.index_notation import create_indices, load, nest, store, vectorize
from ..loop_ir.ir import (
    Accumulator, Axis, Buffer, Contract, Extent, Kernel, Load, ReduceOp, Scalar, Size, Statement,
    Type,
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
    panel, row, column, quad = create_indices("panel row column quad")
    place, weights = column * 1, quad * form.columns + column
    if form.whole:
        place, weights = panel * form.columns + column, panel * step + weights
    sums = Accumulator(ReduceOp.SUM, Type.I32)
    value = Value(sums) - load(corrections, place)
    if per_column:
        multipliers, bias = (load(buffer, place) for buffer in per_column)
        value = apply(Scalar.FMA, value.cast(Type.F32), multipliers, bias)
    extent: Extent = form.columns if form.whole else tail
    product: Statement = Contract(
        (Axis(row, m if form.rows is None else form.rows),), Axis(column, extent),
        (Axis(quad, quads),), Load(a, row * quads + quad), Load(b, weights), sums,
        [store(c, row * apart + place, value)],
        product=Scalar.DOT_LOW_BYTES if form.low else Scalar.DOT_BYTES,
    )
    if form.whole:
        product = nest([product], (panel, panels))
    return Kernel("byte_product", [a, b, corrections, *per_column, c], [product],
                  [m, quads, apart, panels, step, tail])


def quantize_bytes() -> Kernel:
    """y = round(x / scale + zero point) as unsigned bytes, halves to even, NaN as 255.

    Buffers: x (rows, k) of float32, 1 / scale and the zero point, y (rows, padded k). Sizes: rows,
    k, bytes between rows of y.
    """
    rows, k, apart = (Size(name) for name in ("rows", "k", "apart"))
    x, parameters = Buffer(Type.F32, "x"), Buffer(Type.F32, "parameters")
    y = Buffer(Type.U8, "y")
    row, column = create_indices("row column")
    inverse, zero = (load(parameters, i) for i in (0, 1))
    steps = apply(Scalar.ROUND, apply(Scalar.FMA, load(x, row * k + column), inverse, zero))
    clipped = where(steps < 255.0, where(steps > 0.0, steps, 0.0), 255.0)
    byte = clipped.cast(Type.I32).cast(Type.U8)
    inner = vectorize(column, k, store(y, row * apart + column, byte))
    return Kernel("quantize_bytes", [x, parameters, y], [nest([inner], (row, rows))],
                  [rows, k, apart])
