"""Convolutions of run-time sizes: an implicit GEMM whose panels are windows of an image.

Product rows are output channels, columns are the positions of all images concatenated, and the
depth is (channel, row, place) of a window. Weights and results may have any layout; the kernel
tests at run time whether whole vectors can be packed and written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Axis, Contract, Index, Size
from ..gemm.blocking import GemmProblem, plan_dynamic
from ..gemm.macro_kernel import MacroKernel, make_panel_sizer
from ..gemm.micro_kernel import MicroTile, Sums
from ..gemm.operand_packer import OperandPacker
from ..gemm.pack import emit_min
from ..gemm.partial_sums import PartialSums
from ..gemm.product import PanelColumns, Product
from ..gemm.tile_epilogue import TileEpilogue
from ..gemm.tile_kernel import TileKernel
from ..gemm.tile_loops import TileLoops
from ..gemm.workspace import Workspace
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.types import Number, memory_type
from ..loops.epilogue import emit_epilogue
from .im2col_panels import Im2colPacker
from .image_loads import WindowedImage, match_image
from .result_layout import are_equal, get_only_store, store_along


def emit_implicit_gemm(context: Any, statement: Contract) -> None:
    """Emit a convolution of run-time sizes; raises Unsupported for other Contracts."""
    image = match_image(context, statement, statement.rows, statement.depth)
    b, weights = context.builder, _Weights(context, statement, image)
    positions = b.mul(image.rows.outputs, image.columns.outputs)
    product = _as_product(context, statement, weights, positions)
    workspace = Workspace(product, make_panel_sizer(product))
    windows = Im2colPacker(context, image, product.tile)
    weights.find_order(b)
    layout = _ResultLayout(context, statement, image)
    loops = TileLoops(product, narrow_edges=False)
    packer = ConvPacker(product, workspace, loops, windows, weights)
    partial_sums = PartialSums(product, workspace)
    epilogue = PositionEpilogue(product, workspace, partial_sums, image, positions, layout)
    tiles = TileKernel(product, workspace, partial_sums, epilogue)
    MacroKernel(product, workspace, loops, packer, tiles).emit()


class _Weights:
    """The layout of weights: the strides of (output channel, channel, row, place)."""

    def __init__(self, context: Any, statement: Contract, image: WindowedImage) -> None:
        b, load, self.image = context.builder, statement.b, image
        self.strides = [context.extent(load.at.stride(axis.index)) for axis in (
            statement.column, image.channel, image.rows.entry, image.columns.entry)]
        self.apart = [multiply(b, stride, load.type.size) for stride in self.strides]
        self.taps = b.mul(image.rows.entries, image.columns.entries)

    def find_order(self, b: ir.IRBuilder) -> None:
        """Emit a test for whether weights are in depth order."""
        order = (self.taps, self.image.columns.entries, constant(1))
        self.in_order = are_equal(b, *zip(self.strides[1:], order, strict=True))


def _as_product(
    context: Any, statement: Contract, weights: _Weights, positions: ir.Value
) -> Product:
    """Return the product of weights and windows; `positions`: positions per image."""
    b, image, load = context.builder, weights.image, statement.b
    zero = {axis.index: constant(0) for axis in (statement.column, *statement.depth)}
    start = context.address(load.buffer, load.at, zero)
    column = Axis(Index("position"), Size("positions"))
    turned = Contract((statement.column,), column, statement.depth, statement.a, load,
                      statement.sum, statement.body)
    kind = statement.sum.type
    p = GemmProblem(
        statement.column.index, context.extent(statement.column.extent),
        b.mul(image.images, positions), b.mul(image.channels, weights.taps), start, image.start,
        weights.apart[0], load.type.size, image.columns.apart, image.columns.apart, kind, kind,
        kind, 3, False,
    )
    return Product(context, turned, p, plan_dynamic(context, p))


class _ResultLayout:
    """Whether results are in the order of positions, and the epilogue for that case."""

    def __init__(self, context: Any, statement: Contract, image: WindowedImage) -> None:
        line, store = image.columns, get_only_store(statement)
        strides = [context.extent(store.at.stride(axis.output.index))
                   for axis in (image.rows, line)]
        self.flat = are_equal(
            context.builder, *zip(strides, (line.outputs, constant(1)), strict=True)
        )
        self.flat_body = store_along(statement, line.output.index)


class ConvPacker(OperandPacker):
    """Packs weights as rows, and windows of the image as columns."""

    def __init__(
        self, product: Product, workspace: Workspace, loops: TileLoops, panel: Im2colPacker,
        weights: _Weights,
    ) -> None:
        super().__init__(product, workspace, loops)
        self.panel, self.weights = panel, weights

    def pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Pack the weights of a block, group by group."""
        with self.builder.if_else(self.weights.in_order) as (usual, other):
            with usual:
                super().pack_a(g0, g1, start, depth)
            with other:
                self._pack_weights(g0, g1, start, depth)

    def _pack_weights(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Pack weights one by one, tap by tap."""
        b, p, rows, panel = self.builder, self.p, self.tile.rows, self.panel
        _, channel, down, right = self.weights.apart
        columns = self.weights.image.columns.entries

        def group(g: Number) -> None:
            local = multiply(b, b.sub(constant(g), constant(g0)), self.workspace.group_bytes)
            into = offset_bytes(b, self.workspace.memory, local)
            first, last = multiply(b, g, rows), add(b, p.m, -1)
            sources = [
                offset_bytes(b, p.a, multiply(b, emit_min(b, add(b, first, i), last), p.a_row))
                for i in range(rows)
            ]
            with b.counted_loop(0, panel.taps) as t:
                ends = (start, add(b, start, depth))
                low, high = (panel.channels_before(t, end) for end in ends)
                offset = b.add(b.mul(b.udiv(t, columns), down), b.mul(b.urem(t, columns), right))
                offset = b.add(offset, b.mul(low, channel))
                step = b.sub(b.add(b.mul(low, panel.taps), t), constant(start))
                distance = multiply(b, panel.taps, rows * self.size)
                target = offset_bytes(b, into, multiply(b, step, rows * self.size))
                with b.carrying_loop(0, b.sub(high, low), [offset, target]) as loop:
                    offset, target = loop.values
                    for i, source in enumerate(sources):
                        value = b.load(offset_bytes(b, source, offset), typ=memory_type(p.type),
                                       align=self.size)
                        b.store(value, offset_bytes(b, target, i * self.size), align=self.size)
                    loop.values = [b.add(offset, channel), offset_bytes(b, target, distance)]

        self.loops.repeat(g0, g1, group)

    def _pack_panel(
        self, columns: PanelColumns, local: Number, start: Number, depth: Number
    ) -> None:
        self.panel.place(columns.first, columns.count)
        self.panel.pack(start, depth, self.workspace.packed_panel(local))


class PositionEpilogue(TileEpilogue):
    """Stores results whose columns are positions of several images."""

    def __init__(
        self, product: Product, workspace: Workspace, partial_sums: PartialSums,
        image: WindowedImage, positions: ir.Value, layout: _ResultLayout,
    ) -> None:
        super().__init__(product, workspace, partial_sums)
        self.image, self.each, self.layout = image, positions, layout
        self.p, self.tile = product.p, product.tile

    def finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Store whole vectors if a tile's positions are all in one row, else single elements."""
        b = self.builder
        number, position = (f(constant(columns.first), self.each) for f in (b.udiv, b.urem))
        full = b.icmp_signed("==", constant(add(b, valid, columns.count)),
                             constant(tile.rows + tile.columns))
        inside = b.icmp_signed("<=", add(b, position, tile.columns), self.each)
        with b.if_else(b.and_(self.layout.flat, b.and_(full, inside))) as (whole, edge):
            with whole:
                self._store_vectors(tile, sums, first, number, position)
            with edge:
                slot = self.workspace.tile_slot()
                self.partial_sums.store(tile, sums, slot)
                self._store_elements(slot, first, valid, columns.count, number, position)

    def _store_vectors(
        self, tile: MicroTile, sums: Sums, first: Number, number: ir.Value, position: ir.Value
    ) -> None:
        b, image = self.builder, self.image
        known = {image.image.index: number, image.rows.output.index: constant(0)}
        for i in range(tile.rows):
            known[self.row] = constant(add(b, first, i))
            for j in range(tile.vectors):
                start = constant(add(b, position, j * tile.lanes))
                emit_epilogue(self.context, self.layout.flat_body, known,
                              (image.columns.output.index, start),
                              tile.lanes, sums[i * tile.vectors + j])

    def _store_elements(self, slot: ir.Value, first: Number, valid: Number, count: Number,
                        number: ir.Value, at: ir.Value) -> None:
        b, image, kind = self.builder, self.image, memory_type(self.p.type)
        row, column = (f(at, image.columns.outputs) for f in (b.udiv, b.urem))
        zero, unit = constant(0), constant(1)
        with b.carrying_loop(0, count, [number, row, column]) as loop:
            j, (number, row, column) = loop.index, loop.values
            known = {image.image.index: number, image.rows.output.index: row,
                     image.columns.output.index: column}
            with b.counted_loop(0, valid) as i:
                place = b.add(b.mul(i, constant(self.tile.columns)), j)
                value = b.load(offset_bytes(b, slot, multiply(b, place, self.size)), typ=kind,
                               align=self.size)
                channel = (self.row, constant(add(b, first, i)))
                emit_epilogue(self.context, self.statement.body, known, channel, 1, value)
            column = b.add(column, unit)
            over = b.icmp_signed("==", column, image.columns.outputs)
            row = b.select(over, b.add(row, unit), row)
            below = b.icmp_signed("==", row, image.rows.outputs)
            loop.values = [b.select(below, b.add(number, unit), number),
                           b.select(below, zero, row), b.select(over, zero, column)]
