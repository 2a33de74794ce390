"""Gradients of convolutions' weights whose sizes are known at run time: a product of windows.

Rows of the product are (channel, row, place) of a window, columns output channels, the depth the
positions of all images in a row. Panels of windows are read as they are packed for a forward pass:
a row of the product is a run of a panel's positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Axis, Contract, Index, Size
from ..loops.epilogue import emit_epilogue
from ..gemm.macro_kernel_dynamic import DynamicMacroKernel, plan_dynamic
from ..gemm.blocking import GemmProblem
from .image_loads import WindowedImage, match_image
from ..gemm.pack import PackedPanel, min_of, pack_panel
from ..gemm.pack_panels import transpose_into
from ..gemm.macro_kernel import DepthBlock, PanelColumns, subtract
from ..gemm.micro_kernel import DepthLoop, MicroTile, Sums, TileSource, emit_accumulation
from ..llvm.loop import emit_loop
from ..llvm.vectors import first_lanes, load_vector
from ..llvm.address import add, ceil_divide, constant, multiply, offset_bytes
from ..llvm.types import Number, memory_type
from .im2col_panels import Im2colPacker

_BLOCK_POSITIONS = 256  # positions of a block, about


def emit_implicit_gemm_weight(context: Any, statement: Contract) -> None:
    """Emits a weight gradient of run-time sizes; raises Unsupported for other Contracts."""
    image = match_image(context, statement, statement.depth, statement.rows)
    ImplicitGemmWeight(context, statement, image).emit()


class ImplicitGemmWeight(DynamicMacroKernel):
    """Emits one weight gradient."""

    def __init__(self, context: Any, statement: Contract, image: WindowedImage) -> None:
        b, self.image = context.builder, image
        lines, result = (image.rows, image.columns), statement.b
        taps = b.mul(image.rows.entries, image.columns.entries)
        self.each = b.mul(image.rows.outputs, image.columns.outputs)
        strides = [context.extent(result.at.stride(axis.index)) for axis in (
            statement.column, image.image, *(line.output for line in lines))]
        apart = [multiply(b, stride, result.type.size) for stride in strides]
        self.channel_apart, self.image_apart, self.row_apart, self.place_apart = apart
        zero = {axis.index: constant(0) for axis in (statement.column, *statement.depth)}
        start = context.address(result.buffer, result.at, zero)
        row = Axis(Index("entry"), Size("entries"))
        turned = Contract((row,), statement.column, statement.depth, statement.a, result,
                          statement.sum, statement.body)
        kind = statement.sum.type
        p = GemmProblem(
            row.index, b.mul(image.channels, taps), context.extent(statement.column.extent),
            b.mul(image.images, self.each), image.start, start, image.columns.apart,
            image.columns.apart, self.place_apart, self.channel_apart, kind, kind, kind, 3, False,
        )
        super().__init__(context, turned, p, plan_dynamic(context, p, _BLOCK_POSITIONS))
        self.panel = Im2colPacker(context, image, self.tile)
        self._layouts(strides, taps)

    def _layouts(self, strides: list[ir.Value], taps: ir.Value) -> None:
        """Whether images' positions follow one another, and weights lie as rows do."""
        line = self.image.columns
        store, unit = self.only_store(), constant(1)
        self.flat = self.same((strides[2], line.outputs), (strides[3], unit))
        axes = (self.image.channel, self.image.rows.entry, line.entry)
        apart = [self.context.extent(store.at.stride(axis.index)) for axis in axes]
        self.in_order = self.same((apart[0], taps), (apart[1], line.entries), (apart[2], unit))
        self.ordered_body = self.in_lanes(line.entry.index)
        self.square = self._stack(self.tile.lanes * self.tile.lanes * self.size)

    def bytes_of_panel(self, depth: Number, width: int, stored: Any) -> Number:
        """Of a whole block: panels of positions are as wide as ever at its end."""
        return self.plan.depth * width * self.size

    def costs(self) -> tuple[int, int, int]:
        """Windows are packed once for each panel of channels, those for each group of rows."""
        tile = self.tile
        return tile.rows * tile.vectors, 2 * tile.columns, tile.rows

    # ----------------------------------------------------------------------------- packing

    def _pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Packs the windows of a block, some positions after others."""
        b, rows, columns = self.builder, self.tile.rows, self.tile.columns
        first = multiply(b, constant(g0), rows)
        count = multiply(b, b.sub(constant(g1), constant(g0)), rows)
        there = min_of(b, count, b.sub(constant(self.p.m), constant(first)))
        self.apart = multiply(b, count, columns * self.size)

        def some(i: ir.Value, _: Sums) -> Sums:
            done = multiply(b, i, columns)
            left = min_of(b, columns, b.sub(constant(depth), constant(done)))
            self.panel.place(add(b, start, done), left)
            self.panel.pack(first, there, offset_bytes(b, self.memory, multiply(b, i, self.apart)))
            return []

        emit_loop(b, ceil_divide(b, depth, columns), [], some)

    def _pack_b(self, columns: PanelColumns, local: Number, start: Number, depth: Number) -> None:
        """Packs a panel of the cotangent: the stretches of images that a block of positions has."""
        b, p = self.builder, self.p
        source = offset_bytes(b, p.b, multiply(b, columns.first, self.channel_apart))
        first, last = (b.udiv(constant(bound), self.each) for bound in (
            start, add(b, add(b, start, depth), -1)))

        def image(i: ir.Value, _: Sums) -> Sums:
            number = b.add(first, i)
            begin = b.mul(number, self.each)
            low = b.intrinsic("smax", begin.type, (begin, constant(start)))
            end = min_of(b, b.add(begin, self.each), add(b, start, depth))
            done = b.sub(low, constant(start))
            into = offset_bytes(
                b, self._packed(local), multiply(b, done, self.tile.columns * self.size)
            )
            here = offset_bytes(b, source, b.mul(number, self.image_apart))
            with b.if_else(self.flat) as (runs, other):
                with runs:
                    at = offset_bytes(b, here, multiply(b, b.sub(low, begin), self.size))
                    panel = PackedPanel(at, self.channel_apart, self.size, p.b_type, p.type,
                                  self.tile.columns, columns.count, b.sub(end, low),
                                  self.tile.lanes)
                    pack_panel(b, panel, into)
                with other:
                    self._elements(here, b.sub(low, begin), b.sub(end, low), columns.count, into)
            return []

        emit_loop(b, b.add(b.sub(last, first), constant(1)), [], image)

    def _elements(self, image: ir.Value, first: ir.Value, many: ir.Value, count: Number,
                  into: ir.Value) -> None:
        """Some positions of an image, one number after another."""
        b, kind, line = self.builder, memory_type(self.p.type), self.image.columns

        def position(i: ir.Value, carried: Sums) -> Sums:
            row, place = carried
            at = offset_bytes(
                b, image, b.add(b.mul(row, self.row_apart), b.mul(place, self.place_apart))
            )
            target = offset_bytes(b, into, multiply(b, i, self.tile.columns * self.size))

            def channel(j: ir.Value, _: Sums) -> Sums:
                value = b.load(offset_bytes(b, at, b.mul(j, self.channel_apart)), typ=kind,
                               align=self.size)
                b.store(value, offset_bytes(b, target, multiply(b, j, self.size)), align=self.size)
                return []

            emit_loop(b, constant(count), [], channel)
            following = b.add(place, constant(1))
            over = b.icmp_signed("==", following, line.outputs)
            return [b.select(over, b.add(row, constant(1)), row),
                    b.select(over, constant(0), following)]

        emit_loop(b, many, [b.udiv(first, line.outputs), b.urem(first, line.outputs)], position)

    # ------------------------------------------------------------------------------- tiles

    def _tile(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        """One tile: its sums over a block of positions, and what becomes of them."""
        b, tile, p = self.builder, self.tile, self.p
        run, step = tile.columns * self.size, self.tile.columns * self.size
        local = subtract(b, group, work.g0)
        a = offset_bytes(b, self.memory, multiply(b, local, rows * run))
        at = self._packed(subtract(b, panel, work.near))
        partial_sums = self._kept(local, panel, work)
        assert work.ends is not None
        sums = self._resumed(tile, partial_sums, work.ends[0])
        offsets = [i * run for i in range(rows)]
        full = b.udiv(constant(work.depth), constant(tile.columns))
        rest = b.urem(constant(work.depth), constant(tile.columns))
        whole = [DepthLoop(full, self.apart, tile.columns * step),
                 DepthLoop(tile.columns, self.size, step)]
        source = TileSource(a, offsets, at, p.type, p.type)
        sums = emit_accumulation(b, tile, source, whole, sums, self.plan.unroll)
        source = replace(source, a=offset_bytes(b, a, multiply(b, full, self.apart)),
                         b=offset_bytes(b, at, multiply(b, full, tile.columns * step)))
        sums = emit_accumulation(b, tile, source, [DepthLoop(rest, self.size, step)], sums)
        with b.if_else(work.ends[1]) as (last, more):
            with last:
                self._finish(tile, sums, multiply(b, group, rows), valid, columns)
            with more:
                self._keep(tile, sums, partial_sums)

    def _finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Runs of rows where weights lie so, else one number at a time."""
        b, slot = self.builder, self._tile_slot()
        self._keep(tile, sums, slot)
        with b.if_else(self.in_order) as (runs, other):
            with runs:
                self._runs(slot, first, valid, columns)
            with other:
                self._numbers(slot, first, valid, columns)

    def _runs(self, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns) -> None:
        """Squares of rows by columns are turned, so that lanes run along the rows."""
        b, tile = self.builder, self.tile
        lanes, stride = tile.lanes, tile.columns * self.size

        def square(v: ir.Value, _: Sums) -> Sums:
            done = multiply(b, v, lanes)
            left = min_of(b, lanes, b.sub(constant(columns.count), constant(done)))
            column = add(b, constant(columns.first), done)
            for begin in range(0, tile.rows, lanes):
                source = offset_bytes(b, slot, begin * stride)
                source = offset_bytes(b, source, multiply(b, done, self.size))
                rows = min(lanes, tile.rows - begin)
                transpose_into(b, tile.type, lanes, source, stride, rows, lanes, self.square)
                mask = first_lanes(b, constant(add(b, valid, -begin)), lanes)
                self._turned(column, left, constant(add(b, first, begin)), mask)
            return []

        emit_loop(b, ceil_divide(b, constant(columns.count), lanes), [], square)

    def _turned(self, column: Number, count: Number, row: ir.Value, mask: ir.Value | None
                ) -> None:
        """The lines of the square: `count` columns, with rows in lanes."""
        b, tile, image = self.builder, self.tile, self.image
        known = {image.channel.index: constant(0), image.rows.entry.index: constant(0)}

        def channel(c: ir.Value, _: Sums) -> Sums:
            line = offset_bytes(b, self.square, multiply(b, c, tile.lanes * self.size))
            value = load_vector(b, line, tile.type, tile.lanes)
            at = {**known, self.column: constant(add(b, c, column))}
            emit_epilogue(self.context, self.ordered_body, at, (image.columns.entry.index, row),
                                  tile.lanes, value, mask)
            return []

        emit_loop(b, count, [], channel)

    def _numbers(self, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns) -> None:
        b, image, kind = self.builder, self.image, memory_type(self.p.type)
        entries = image.columns.entries

        def row(i: ir.Value, _: Sums) -> Sums:
            at = add(b, i, first)
            channel, tap = (f(constant(at), self.panel.taps) for f in (b.udiv, b.urem))
            known = {image.channel.index: channel, image.rows.entry.index: b.udiv(tap, entries),
                     image.columns.entry.index: b.urem(tap, entries)}
            source = offset_bytes(b, slot, multiply(b, i, self.tile.columns * self.size))

            def store_number(j: ir.Value, _: Sums) -> Sums:
                value = b.load(
                    offset_bytes(b, source, multiply(b, j, self.size)), typ=kind, align=self.size
                )
                start = constant(add(b, j, columns.first))
                emit_epilogue(
                    self.context, self.statement.body, known, (self.column, start), 1, value
                )
                return []

            emit_loop(b, constant(columns.count), [], store_number)
            return []

        emit_loop(b, valid, [], row)
