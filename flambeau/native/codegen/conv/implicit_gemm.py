"""Convolutions whose sizes are known at run time: a product whose panels are windows of an image.

Rows of the product are output channels, columns the positions of all images in a row, the depth is
(channel, row, place) of a window. Weights and results may lie in any order; where they lie as
usual they are packed and written by whole vectors, which is decided when the kernel runs.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Axis, Contract, Index, Size
from ..loops.epilogue import emit_epilogue
from ..gemm.macro_kernel_dynamic import DynamicMacroKernel, plan_dynamic
from ..gemm.blocking import GemmProblem
from .image_loads import WindowedImage, match_image
from ..gemm.pack import min_of
from ..gemm.macro_kernel import PanelColumns
from ..gemm.micro_kernel import MicroTile, Sums
from ..llvm.loop import emit_loop
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.types import Number, memory_type
from .im2col_panels import Im2colPacker


def emit_implicit_gemm(context: Any, statement: Contract) -> None:
    """Emits a convolution of run-time sizes; raises Unsupported for other Contracts."""
    image = match_image(context, statement, statement.rows, statement.depth)
    ImplicitGemmConv(context, statement, image).emit()


class ImplicitGemmConv(DynamicMacroKernel):
    """Emits one convolution as a GEMM over im2col panels."""

    def __init__(self, context: Any, statement: Contract, image: WindowedImage) -> None:
        b, size, self.image = context.builder, context.extent, image
        weights, rows = statement.b, (image.rows, image.columns)
        at = [size(weights.at.stride(axis.index)) for axis in (
            statement.column, image.channel, *(line.entry for line in rows))]
        self.weight_apart = [multiply(b, stride, weights.type.size) for stride in at]
        taps = b.mul(image.rows.entries, image.columns.entries)
        self.each = b.mul(image.rows.outputs, image.columns.outputs)
        zero = {axis.index: constant(0) for axis in (statement.column, *statement.depth)}
        start = context.address(weights.buffer, weights.at, zero)
        column = Axis(Index("position"), Size("positions"))
        turned = Contract((statement.column,), column, statement.depth, statement.a, weights,
                          statement.sum, statement.body)
        kind = statement.sum.type
        p = GemmProblem(
            statement.column.index, size(statement.column.extent), b.mul(image.images, self.each),
            b.mul(image.channels, taps), start, image.start, self.weight_apart[0],
            weights.type.size, image.columns.apart, image.columns.apart, kind, kind, kind, 3, False,
        )
        super().__init__(context, turned, p, plan_dynamic(context, p))
        self.panel = Im2colPacker(context, image, self.tile)
        self._layouts(at, taps)

    def _layouts(self, weights: list[ir.Value], taps: ir.Value) -> None:
        """Whether weights lie in the order of the depth, and results in that of positions."""
        line = self.image.columns
        wanted = (taps, line.entries, constant(1))
        self.in_order = self.same(*zip(weights[1:], wanted, strict=True))
        store = self.only_store()
        apart = [self.context.extent(store.at.stride(axis.output.index))
                 for axis in (self.image.rows, line)]
        self.flat = self.same(*zip(apart, (line.outputs, constant(1)), strict=True))
        self.flat_body = self.in_lanes(line.output.index)

    # ----------------------------------------------------------------------------- packing

    def _pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Packs the weights of a block, group by group."""
        with self.builder.if_else(self.in_order) as (usual, other):
            with usual:
                super()._pack_a(g0, g1, start, depth)
            with other:
                self._pack_weights(g0, g1, start, depth)

    def _pack_weights(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """One weight after another, tap by tap."""
        b, p, rows, panel = self.builder, self.p, self.tile.rows, self.panel
        _, channel, down, right = self.weight_apart
        columns = self.image.columns.entries

        def group(g: Number) -> None:
            local = multiply(b, b.sub(constant(g), constant(g0)), self.group_bytes)
            into = offset_bytes(b, self.memory, local)
            first, last = multiply(b, g, rows), add(b, p.m, -1)
            sources = [
                offset_bytes(b, p.a, multiply(b, min_of(b, add(b, first, i), last), p.a_row))
                for i in range(rows)
            ]

            def tap(t: ir.Value, _: list) -> list:
                ends = (start, add(b, start, depth))
                low, high = (panel.channels_before(t, end) for end in ends)
                at = b.add(b.mul(b.udiv(t, columns), down), b.mul(b.urem(t, columns), right))
                at = b.add(at, b.mul(low, channel))
                step = b.sub(b.add(b.mul(low, panel.taps), t), constant(start))
                apart = multiply(b, panel.taps, rows * self.size)

                def copy_weight(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                    offset, target = carried
                    for i, source in enumerate(sources):
                        value = b.load(offset_bytes(b, source, offset), typ=memory_type(p.type),
                                       align=self.size)
                        b.store(value, offset_bytes(b, target, i * self.size), align=self.size)
                    return [b.add(offset, channel), offset_bytes(b, target, apart)]

                target = offset_bytes(b, into, multiply(b, step, rows * self.size))
                emit_loop(b, b.sub(high, low), [at, target], copy_weight)
                return []

            emit_loop(b, panel.taps, [], tap)

        self._between(g0, g1, group)

    def _pack_b(self, columns: PanelColumns, local: Number, start: Number, depth: Number) -> None:
        self.panel.place(columns.first, columns.count)
        self.panel.pack(start, depth, self._packed(local))

    # ------------------------------------------------------------------------------ results

    def _finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Whole vectors where all of a tile's positions lie in a row, else one number at a time."""
        b = self.builder
        number, at = (f(constant(columns.first), self.each) for f in (b.udiv, b.urem))
        full = b.icmp_signed("==", constant(add(b, valid, columns.count)),
                             constant(tile.rows + tile.columns))
        inside = b.icmp_signed("<=", add(b, at, tile.columns), self.each)
        with b.if_else(b.and_(self.flat, b.and_(full, inside))) as (whole, edge):
            with whole:
                self._vectors(tile, sums, first, number, at)
            with edge:
                slot = self._tile_slot()
                self._keep(tile, sums, slot)
                self._numbers(slot, first, valid, columns.count, number, at)

    def _vectors(self, tile: MicroTile, sums: Sums, first: Number, number: ir.Value, at: ir.Value
                 ) -> None:
        b, image = self.builder, self.image
        known = {image.image.index: number, image.rows.output.index: constant(0)}
        for i in range(tile.rows):
            known[self.row] = constant(add(b, first, i))
            for j in range(tile.vectors):
                start = constant(add(b, at, j * tile.lanes))
                emit_epilogue(self.context, self.flat_body, known,
                              (image.columns.output.index, start),
                                      tile.lanes, sums[i * tile.vectors + j])

    def _numbers(self, slot: ir.Value, first: Number, valid: Number, count: Number,
                 number: ir.Value, at: ir.Value) -> None:
        b, image, kind = self.builder, self.image, memory_type(self.p.type)
        row, column = (f(at, image.columns.outputs) for f in (b.udiv, b.urem))
        zero, unit = constant(0), constant(1)

        def position(j: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            number, row, column = carried
            known = {image.image.index: number, image.rows.output.index: row,
                     image.columns.output.index: column}

            def channel(i: ir.Value, _: list) -> list:
                place = b.add(b.mul(i, constant(self.tile.columns)), j)
                value = b.load(offset_bytes(b, slot, multiply(b, place, self.size)), typ=kind,
                               align=self.size)
                row = (self.row, constant(add(b, first, i)))
                emit_epilogue(self.context, self.statement.body, known, row, 1, value)
                return []

            emit_loop(b, valid, [], channel)
            column = b.add(column, unit)
            over = b.icmp_signed("==", column, image.columns.outputs)
            row = b.select(over, b.add(row, unit), row)
            below = b.icmp_signed("==", row, image.rows.outputs)
            return [b.select(below, b.add(number, unit), number), b.select(below, zero, row),
                    b.select(over, zero, column)]

        emit_loop(b, count, [number, row, column], position)

