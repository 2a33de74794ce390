"""Recurrent layers of 8-bit integers: all steps in one kernel, on one thread.

Each step quantizes the hidden state by the range of all its values, multiplies the bytes by packed
weights (see byte_products), and applies the cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..loop_ir.expression_builder import Value, apply, constant, where
from ..loop_ir.index_notation import (
    Place, create_indices, load, nest, repeat, store, update, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Axis, Begin, Buffer, Constant, Contract, Index, Kernel, Load, ReduceOp,
    Scalar, Size, Statement, Type,
)
from .recurrent_cells import CELLS

INVERSE, ZERO, SCALE = range(3)  # places of the parameters


@dataclass(frozen=True)
class ByteRecurrentForm:
    """The form of a layer and direction; those of one form share a kernel.

    `cell`: a name of CELLS. `width`: of the state, a multiple of 4. `columns`: of a panel.
    `smallest`: the smallest scale. `greatest`: the greatest byte, at most 127.
    """

    cell: str
    width: int
    columns: int
    smallest: float
    greatest: int


def build_byte_recurrent(form: ByteRecurrentForm) -> Kernel:
    """h and c after all steps, and y = h after each.

    Buffers: x, the sums from the input (steps, rows, gates * width); h and, if the cell has it, c
    (rows, width); y (steps, rows, width); panels of recurrent weights; their sums over the depth,
    their scales and biases (gates * width); and working memory: 3 parameters, quads of bytes
    (rows, width / 4), sums (rows, gates * width). Sizes: steps, rows, and elements between steps
    of x and of y, negative for a layer that runs backwards.
    """
    return _Builder(form).build()


class _Builder:
    """Builds one kernel."""

    def __init__(self, form: ByteRecurrentForm) -> None:
        self.form, self.cell, self.width = form, CELLS[form.cell], form.width
        self.greatest = float(form.greatest)
        self.wide, self.quads = self.cell.gates * form.width, form.width // 4
        self.steps, self.rows, self.x_apart, self.y_apart = self.sizes = [
            Size(name) for name in ("steps", "rows", "x_apart", "y_apart")]
        floats = [Buffer(Type.F32, name) for name in (
            "x", "h", "c", "y", "scales", "bias", "parameters", "sums")]
        (self.x, self.h, self.c, self.y, self.scales, self.bias, self.parameters,
         self.sums) = floats
        self.panels, self.weight_sums, self.bytes = (
            Buffer(Type.I32, name) for name in ("panels", "weight_sums", "bytes"))
        self.step = Index("step")

    def build(self) -> Kernel:
        """Return the kernel."""
        body = repeat(self.step, self.steps, *self._choose_parameters(), self._quantize(),
                      *self._multiply(), self._apply_cell())
        states = [self.h, self.c] if self.cell.carries else [self.h]
        buffers = [self.x, *states, self.y, self.panels, self.weight_sums, self.scales, self.bias,
                   self.parameters, self.bytes, self.sums]
        return Kernel("byte_recurrent", buffers, [nest([body], (Index("once"), 1))], self.sizes)

    def _choose_parameters(self) -> list[Statement]:
        """Compute the scale and zero point of h, as quantizers.choose_parameters does."""
        row, column = create_indices("row column")
        low_end, high_end = (Accumulator(fold, Type.F32, name) for fold, name in (
            (ReduceOp.MINIMUM, "low"), (ReduceOp.MAXIMUM, "high")))
        state = load(self.h, row * self.width + column)
        scan = repeat(row, self.rows, vectorize(
            column, self.width, update(low_end, state), update(high_end, state)))
        low, high, scale = self._widen(Value(low_end), Value(high_end))
        down, up = low.cast(Type.F64) / scale, high.cast(Type.F64) / scale
        # The end whose rounding error is smaller lies on the grid.
        most = self.greatest
        zero = apply(Scalar.ROUND, where(-abs(down) < most - abs(up), -down, most - up))
        zero = where(zero > 0.0, where(zero < most, zero, most), 0.0)
        scale = scale.cast(Type.F32)
        start = Constant(Type.F32, 0.0)  # zero is always represented
        return [Begin(low_end, start), Begin(high_end, start), scan,
                store(self.parameters, INVERSE, 1 / scale),
                store(self.parameters, ZERO, zero.cast(Type.F32)),
                store(self.parameters, SCALE, scale)]

    def _widen(self, low: Value, high: Value) -> tuple[Value, Value, Value]:
        """Return the ends of the range, which the smallest scale may widen, and the scale."""
        smallest = self.form.smallest
        scale = (high.cast(Type.F64) - low.cast(Type.F64)) / self.greatest
        single = scale.cast(Type.F32)
        scale = where((single == 0.0) | (1 / single == float("inf")), 0.1, scale)
        factor = smallest / scale.cast(Type.F32)
        widest = constant(smallest * self.greatest, Type.F32)
        wide_low = where(low == 0.0, low, where(high == 0.0, -widest, low * factor))
        wide_high = where(low == 0.0, widest, where(high == 0.0, high, high * factor))
        is_small = scale < smallest
        return (where(is_small, wide_low, low), where(is_small, wide_high, high),
                where(is_small, smallest, scale))

    def _quantize(self) -> Statement:
        """Round h to bytes, four in an int32."""
        row, quad = create_indices("row quad")
        inverse, zero = (load(self.parameters, i) for i in (INVERSE, ZERO))
        packed: Value | None = None
        for i in range(4):
            state = load(self.h, row * self.width + quad * 4 + i)
            steps = apply(Scalar.ROUND, apply(Scalar.FMA, state, inverse, zero))
            steps = where(steps < self.greatest, where(steps > 0.0, steps, 0.0), self.greatest)
            byte = steps.cast(Type.I32) * (1 << 8 * i)
            packed = byte if packed is None else packed + byte
        assert packed is not None
        return repeat(row, self.rows, vectorize(
            quad, self.quads, store(self.bytes, row * self.quads + quad, packed)))

    def _multiply(self) -> list[Statement]:
        """Multiply the bytes by all panels; the last may be partial."""
        columns, panel = self.form.columns, Index("panel")
        full, tail = divmod(self.wide, columns)
        size = self.quads * columns
        products: list[Statement] = []
        if full:
            products.append(repeat(panel, full, self._multiply_panel(
                panel * size, panel * columns, columns)))
        if tail:
            products.append(self._multiply_panel(full * size, full * columns, tail))
        return products

    def _multiply_panel(self, weights: Place, first: Place, extent: int) -> Statement:
        row, column, quad = create_indices("row column quad")
        sums = Accumulator(ReduceOp.SUM, Type.I32)
        place = column + first
        zero = load(self.parameters, ZERO).cast(Type.I32)
        value = Value(sums) - zero * load(self.weight_sums, place)
        multiplier = load(self.parameters, SCALE) * load(self.scales, place)
        value = apply(Scalar.FMA, value.cast(Type.F32), multiplier, load(self.bias, place))
        return Contract(
            (Axis(row, self.rows),), Axis(column, extent), (Axis(quad, self.quads),),
            Load(self.bytes, row * self.quads + quad),
            Load(self.panels, quad * self.form.columns + column + weights), sums,
            [store(self.sums, row * self.wide + place, value)], product=Scalar.DOT_LOW_BYTES)

    def _apply_cell(self) -> Statement:
        """Compute the next states from the sums, and store y."""
        row, column = create_indices("row column")
        gates = range(self.cell.gates)
        state = row * self.width + column
        from_input = row * self.wide + column + self.step * self.x_apart
        values: dict[str, Any] = {
            "x": [load(self.x, from_input + gate * self.width) for gate in gates],
            "s": [load(self.sums, row * self.wide + column + gate * self.width) for gate in gates],
            "h": load(self.h, state), "c": load(self.c, state)}
        results = self.cell.forward(values)
        # A store's value is computed from what the stores before it left.
        stores = [store(self.y, state + self.step * self.y_apart, results["y"][0]),
                  store(self.h, state, results["y"][0])]
        if self.cell.carries:
            stores.append(store(self.c, state, results["cells"][0]))
        return repeat(row, self.rows, vectorize(column, self.width, *stores))
