"""Weight gradients of convolutions of run-time sizes, as an implicit GEMM over windows.

Product rows are (channel, row, place) of a window, columns are output channels, and the depth is
the positions of all images concatenated. Window panels have the forward pass's packed layout: a
row of the product is a run of a panel's positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Axis, Contract, Index, Size
from ...target.cost_model import CONV_WEIGHT_BLOCK_POSITIONS
from ..gemm.blocking import GemmProblem, plan_dynamic
from ..gemm.macro_kernel import MacroKernel
from ..gemm.micro_kernel import DepthLoop, MicroTile, Sums, TileSource, emit_accumulation
from ..gemm.operand_packer import OperandPacker
from ..gemm.pack import PackedPanel, emit_min, pack_panel
from ..gemm.pack_panels import transpose_into
from ..gemm.partial_sums import PartialSums
from ..gemm.product import DepthBlock, PanelColumns, Product
from ..gemm.tile_epilogue import TileEpilogue
from ..gemm.tile_kernel import TileKernel
from ..gemm.tile_loops import TileLoops
from ..gemm.workspace import Workspace
from ..llvm.address import add, ceil_divide, constant, multiply, offset_bytes, subtract
from ..llvm.types import Number, memory_type
from ..llvm.vectors import first_lanes, load_vector
from ..loops.epilogue import emit_epilogue
from .im2col_panels import Im2colPacker
from .image_loads import WindowedImage, match_image
from .result_layout import are_equal, get_only_store, store_along


def emit_implicit_gemm_weight(context: Any, statement: Contract) -> None:
    """Emit a weight gradient of run-time sizes; raises Unsupported for other Contracts."""
    image = match_image(context, statement, statement.depth, statement.rows)
    cotangent = _Cotangent(context, statement, image)
    product = _as_product(context, statement, cotangent)
    workspace = Workspace(  # panels of positions are as wide as ever at the end of a block
        product, lambda depth, width, _: product.plan.depth * width * product.size
    )
    windows = Im2colPacker(context, image, product.tile)
    cotangent.find_order(context.builder)
    layout = _WeightLayout(context, statement, cotangent, workspace)
    loops = TileLoops(product, narrow_edges=False)
    packer = GradientPacker(product, workspace, loops, windows, cotangent)
    partial_sums = PartialSums(product, workspace)
    epilogue = WeightEpilogue(product, workspace, partial_sums, windows, layout)
    tiles = GradientTileKernel(product, workspace, partial_sums, epilogue, packer)
    MacroKernel(product, workspace, loops, packer, tiles).emit()


class _Cotangent:
    """The cotangent's strides: bytes between channels, images, rows and positions."""

    def __init__(self, context: Any, statement: Contract, image: WindowedImage) -> None:
        b, self.image = context.builder, image
        lines, load = (image.rows, image.columns), statement.b
        self.taps = b.mul(image.rows.entries, image.columns.entries)
        self.each = b.mul(image.rows.outputs, image.columns.outputs)
        self.strides = [context.extent(load.at.stride(axis.index)) for axis in (
            statement.column, image.image, *(line.output for line in lines))]
        strides_bytes = [multiply(b, stride, load.type.size) for stride in self.strides]
        self.channel_apart, self.image_apart, self.row_apart, self.place_apart = strides_bytes

    def find_order(self, b: ir.IRBuilder) -> None:
        """Emit a test for whether an image's positions are contiguous."""
        self.flat = are_equal(
            b, (self.strides[2], self.image.columns.outputs), (self.strides[3], constant(1))
        )


def _as_product(context: Any, statement: Contract, cotangent: _Cotangent) -> Product:
    """The product of windows and cotangent."""
    b, image, result = context.builder, cotangent.image, statement.b
    zero = {axis.index: constant(0) for axis in (statement.column, *statement.depth)}
    start = context.address(result.buffer, result.at, zero)
    row = Axis(Index("entry"), Size("entries"))
    turned = Contract((row,), statement.column, statement.depth, statement.a, result,
                      statement.sum, statement.body)
    kind = statement.sum.type
    p = GemmProblem(
        row.index, b.mul(image.channels, cotangent.taps), context.extent(statement.column.extent),
        b.mul(image.images, cotangent.each), image.start, start, image.columns.apart,
        image.columns.apart, cotangent.place_apart, cotangent.channel_apart, kind, kind, kind, 3,
        False,
    )
    return Product(context, turned, p, plan_dynamic(context, p, CONV_WEIGHT_BLOCK_POSITIONS))


class _WeightLayout:
    """Whether weights are laid out like rows of the product, and the epilogue for that case."""

    def __init__(
        self, context: Any, statement: Contract, cotangent: _Cotangent, workspace: Workspace
    ) -> None:
        image, store = cotangent.image, get_only_store(statement)
        line = image.columns
        axes = (image.channel, image.rows.entry, line.entry)
        strides = [context.extent(store.at.stride(axis.index)) for axis in axes]
        self.image = image
        self.in_order = are_equal(
            context.builder, (strides[0], cotangent.taps), (strides[1], line.entries),
            (strides[2], constant(1)),
        )
        self.ordered_body = store_along(statement, line.entry.index)
        lanes = workspace.tile.lanes
        self.square = workspace.allocate_on_stack(lanes * lanes * workspace.size)


class GradientPacker(OperandPacker):
    """Packs windows as rows, and segments of the cotangent's images as columns."""

    def __init__(
        self, product: Product, workspace: Workspace, loops: TileLoops, windows: Im2colPacker,
        cotangent: _Cotangent,
    ) -> None:
        super().__init__(product, workspace, loops)
        self.windows, self.cotangent = windows, cotangent

    def pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Pack the windows of a block, a group of positions at a time."""
        b, rows, columns = self.builder, self.tile.rows, self.tile.columns
        first = multiply(b, constant(g0), rows)
        count = multiply(b, b.sub(constant(g1), constant(g0)), rows)
        available = emit_min(b, count, b.sub(constant(self.p.m), constant(first)))
        self.apart = multiply(b, count, columns * self.size)
        with b.counted_loop(0, ceil_divide(b, depth, columns)) as i:
            done = multiply(b, i, columns)
            remaining = emit_min(b, columns, b.sub(constant(depth), constant(done)))
            self.windows.place(add(b, start, done), remaining)
            into = offset_bytes(b, self.workspace.memory, multiply(b, i, self.apart))
            self.windows.pack(first, available, into)

    def _pack_panel(
        self, columns: PanelColumns, local: Number, start: Number, depth: Number
    ) -> None:
        """Pack a panel of the cotangent: the image segments in a block of positions."""
        b, p, cotangent = self.builder, self.p, self.cotangent
        source = offset_bytes(b, p.b, multiply(b, columns.first, cotangent.channel_apart))
        first, last = (b.udiv(constant(bound), cotangent.each) for bound in (
            start, add(b, add(b, start, depth), -1)))
        with b.counted_loop(0, b.add(b.sub(last, first), constant(1))) as i:
            number = b.add(first, i)
            begin = b.mul(number, cotangent.each)
            low = b.intrinsic("smax", begin.type, (begin, constant(start)))
            end = emit_min(b, b.add(begin, cotangent.each), add(b, start, depth))
            done = b.sub(low, constant(start))
            into = self.workspace.packed_panel(local)
            into = offset_bytes(b, into, multiply(b, done, self.tile.columns * self.size))
            here = offset_bytes(b, source, b.mul(number, cotangent.image_apart))
            with b.if_else(cotangent.flat) as (runs, other):
                with runs:
                    pointer = offset_bytes(b, here, multiply(b, b.sub(low, begin), self.size))
                    panel = PackedPanel(pointer, cotangent.channel_apart, self.size, p.b_type,
                                        p.type, self.tile.columns, columns.count,
                                        b.sub(end, low), self.tile.lanes)
                    pack_panel(b, panel, into)
                with other:
                    first_position, position_count = b.sub(low, begin), b.sub(end, low)
                    self._pack_elements(here, first_position, position_count, columns.count, into)

    def _pack_elements(
        self, image: ir.Value, first: ir.Value, position_count: ir.Value, count: Number,
        into: ir.Value,
    ) -> None:
        """Pack positions of an image one by one."""
        b, kind, cotangent = self.builder, memory_type(self.p.type), self.cotangent
        line = cotangent.image.columns
        start = [b.udiv(first, line.outputs), b.urem(first, line.outputs)]
        with b.carrying_loop(0, position_count, start) as loop:
            i, (row, place) = loop.index, loop.values
            offset = b.mul(row, cotangent.row_apart)
            offset = b.add(offset, b.mul(place, cotangent.place_apart))
            pointer = offset_bytes(b, image, offset)
            target = offset_bytes(b, into, multiply(b, i, self.tile.columns * self.size))
            with b.counted_loop(0, constant(count)) as j:
                value = b.load(offset_bytes(b, pointer, b.mul(j, cotangent.channel_apart)),
                               typ=kind, align=self.size)
                b.store(value, offset_bytes(b, target, multiply(b, j, self.size)), align=self.size)
            following = b.add(place, constant(1))
            over = b.icmp_signed("==", following, line.outputs)
            loop.values = [b.select(over, b.add(row, constant(1)), row),
                           b.select(over, constant(0), following)]


class GradientTileKernel(TileKernel):
    """Multiplies tiles whose rows are runs of packed positions."""

    def __init__(
        self, product: Product, workspace: Workspace, partial_sums: PartialSums,
        epilogue: TileEpilogue, packer: GradientPacker,
    ) -> None:
        super().__init__(product, workspace, partial_sums, epilogue)
        self.packer = packer

    def costs(self) -> tuple[int, int, int]:
        """Windows are packed once for each panel of channels, those for each group of rows."""
        tile = self.tile
        return tile.rows * tile.vectors, 2 * tile.columns, tile.rows

    def emit(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        """Compute a tile: its sums over a block of positions, and their epilogue."""
        b, tile, p = self.builder, self.tile, self.p
        run, step = tile.columns * self.size, self.tile.columns * self.size
        local = subtract(b, group, work.first_group)
        a = offset_bytes(b, self.workspace.memory, multiply(b, local, rows * run))
        packed = self.workspace.packed_panel(subtract(b, panel, work.first_packed))
        partial_sums = self.partial_sums.address(local, panel, work)
        assert work.ends is not None
        sums = self.partial_sums.load(tile, partial_sums, work.ends[0])
        offsets = [i * run for i in range(rows)]
        full = b.udiv(constant(work.depth), constant(tile.columns))
        rest = b.urem(constant(work.depth), constant(tile.columns))
        loops = [DepthLoop(full, self.packer.apart, tile.columns * step),
                 DepthLoop(tile.columns, self.size, step)]
        source = TileSource(a, offsets, packed, p.type, p.type)
        sums = emit_accumulation(b, tile, source, loops, sums, self.plan.unroll)
        source = replace(source, a=offset_bytes(b, a, multiply(b, full, self.packer.apart)),
                         b=offset_bytes(b, packed, multiply(b, full, tile.columns * step)))
        sums = emit_accumulation(b, tile, source, [DepthLoop(rest, self.size, step)], sums)
        with b.if_else(work.ends[1]) as (last, more):
            with last:
                self.epilogue.finish(tile, sums, multiply(b, group, rows), valid, columns)
            with more:
                self.partial_sums.store(tile, sums, partial_sums)


class WeightEpilogue(TileEpilogue):
    """Stores weight gradients in any layout."""

    def __init__(
        self, product: Product, workspace: Workspace, partial_sums: PartialSums,
        windows: Im2colPacker, layout: _WeightLayout,
    ) -> None:
        super().__init__(product, workspace, partial_sums)
        self.windows, self.layout, self.image = windows, layout, layout.image
        self.p, self.tile = product.p, product.tile

    def finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Store runs of rows if the weight layout allows it, else single elements."""
        b, slot = self.builder, self.workspace.tile_slot()
        self.partial_sums.store(tile, sums, slot)
        with b.if_else(self.layout.in_order) as (runs, other):
            with runs:
                self._store_runs(slot, first, valid, columns)
            with other:
                self._store_elements(slot, first, valid, columns)

    def _store_runs(
        self, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Transpose squares of rows by columns and store them with lanes along the rows."""
        b, tile = self.builder, self.tile
        lanes, stride = tile.lanes, tile.columns * self.size
        with b.counted_loop(0, ceil_divide(b, constant(columns.count), lanes)) as v:
            done = multiply(b, v, lanes)
            remaining = emit_min(b, lanes, b.sub(constant(columns.count), constant(done)))
            column = add(b, constant(columns.first), done)
            for begin in range(0, tile.rows, lanes):
                source = offset_bytes(b, slot, begin * stride)
                source = offset_bytes(b, source, multiply(b, done, self.size))
                rows = min(lanes, tile.rows - begin)
                transpose_into(b, tile.type, lanes, source, stride, rows, lanes, self.layout.square)
                mask = first_lanes(b, constant(add(b, valid, -begin)), lanes)
                self._store_square(column, remaining, constant(add(b, first, begin)), mask)

    def _store_square(
        self, column: Number, count: Number, row: ir.Value, mask: ir.Value | None
    ) -> None:
        """Store a square: `count` columns, with rows in lanes."""
        b, tile, image = self.builder, self.tile, self.image
        known = {image.channel.index: constant(0), image.rows.entry.index: constant(0)}
        with b.counted_loop(0, count) as c:
            line = offset_bytes(b, self.layout.square, multiply(b, c, tile.lanes * self.size))
            value = load_vector(b, line, tile.type, tile.lanes)
            bindings = {**known, self.column: constant(add(b, c, column))}
            emit_epilogue(self.context, self.layout.ordered_body, bindings,
                          (image.columns.entry.index, row), tile.lanes, value, mask)

    def _store_elements(
        self, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        b, image, kind = self.builder, self.image, memory_type(self.p.type)
        entries = image.columns.entries
        with b.counted_loop(0, valid) as i:
            row_number = add(b, i, first)
            channel, tap = (f(constant(row_number), self.windows.taps) for f in (b.udiv, b.urem))
            known = {image.channel.index: channel, image.rows.entry.index: b.udiv(tap, entries),
                     image.columns.entry.index: b.urem(tap, entries)}
            source = offset_bytes(b, slot, multiply(b, i, self.tile.columns * self.size))
            with b.counted_loop(0, constant(columns.count)) as j:
                value = b.load(
                    offset_bytes(b, source, multiply(b, j, self.size)), typ=kind, align=self.size
                )
                start = constant(add(b, j, columns.first))
                emit_epilogue(
                    self.context, self.statement.body, known, (self.column, start), 1, value
                )
