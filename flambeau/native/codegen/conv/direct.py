"""Contractions with several row or depth axes: convolutions, and their two backward passes.

Weights (`b`) are packed into panels of a register tile's width; a padded or transposed image (`a`)
is packed into scratch a few rows at a time, an already padded image is read in place. Tiles span as
many row axes as fill the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from llvmlite import ir

from ...loop_ir.ir import Contract
from ..gemm.micro_kernel import Sums
from ..gemm.pack_panels import StridedBlock, pack_block
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder, vector
from ..llvm.scratch_abi import USABLE_BYTES
from ..llvm.types import memory_type
from ..llvm.vectors import store_vector
from ..loops.context import Context
from ..loops.scratch import borrow_scratch
from ..loops.work_partition import split_units
from .direct_blocking import ConvPlan, Unsupported, plan_direct_conv
from .direct_image import ImageOperand
from .direct_tile import ConvEpilogue, PlacedTile
from .direct_unit import UnitTiles


def emit_direct_conv(context: Context, contract: Contract) -> None:
    """Emit a contraction of any number of row and depth axes, split among the threads.

    Raises Unsupported, before anything is emitted, for other forms.
    """
    cut = plan_direct_conv(contract, context.target, context.parallel)
    _DirectConvEmitter(context, contract, cut).emit()


class _DirectConvEmitter:
    """Emits a contraction."""

    def __init__(self, context: Context, contract: Contract, cut: ConvPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.b: Builder = context.builder
        self.size = cut.type.size
        self.panel_bytes = cut.steps * cut.width * self.size
        self.image = ImageOperand(context, contract, cut)
        self.tiles = UnitTiles(self.b, contract, cut, self.image)
        tile = self.tiles.tile_bytes
        window = -(-cut.scratch * self.size // 64) * 64 + 64 if cut.lines else 0
        sum_bytes = tile * cut.tiles * cut.units_at_once * cut.panels if cut.blocks > 1 else 0
        parts = (cut.lanes * cut.lanes * self.size, tile, cut.panels * self.panel_bytes, sum_bytes)
        self.places = [sum(parts[:k]) for k in range(len(parts) + 1)]
        if self.places[-1] + window > USABLE_BYTES:
            raise Unsupported("too much scratch")
        self.epilogue = ConvEpilogue(context, contract, cut)

    # ----------------------------------------------------------------------------- the loops

    def emit(self) -> None:
        """Column blocks by units of rows, this thread's share of them."""
        b, cut = self.b, self.cut
        groups = -(-cut.count // cut.panels)
        low, high = split_units(b, self.context, groups * cut.units)
        with borrow_scratch(b, self.context.tid) as memory:
            self.square, self.turning, self.panels, self.sums, self.image.window = (
                offset_bytes(b, memory, place) for place in self.places
            )
            zeros = [constant(0)] * len(cut.rows)
            self.image.shared = self.image.pack(zeros, [0] * len(cut.depth)) if cut.once else None
            units = constant(cut.units)
            first = b.sdiv(low, units)
            end = b.sdiv(b.add(high, constant(cut.units - 1)), units)
            with b.counted_loop(first, end) as group:
                before = b.mul(group, units)
                start = b.intrinsic("smax", before.type, (b.sub(low, before), constant(0)))
                stop = b.minimum_of(b.sub(high, before), units)
                panel = b.mul(group, constant(cut.panels))
                until = b.minimum_of(b.add(panel, constant(cut.panels)), constant(cut.count))
                emit = self._emit_whole_depth if cut.blocks == 1 else self._emit_blocked_depth
                emit(start, stop, panel, until)

    def _emit_whole_depth(
        self, start: ir.Value, stop: ir.Value, panel: ir.Value, until: ir.Value
    ) -> None:
        """All of the depth at once: sums never leave the registers."""
        b, depth_start = self.b, [0] * len(self.cut.depth)
        self._pack_panels(panel, until, depth_start)
        with b.counted_loop(start, stop) as unit:
            rows = self._locate_unit_rows(unit)
            a = self.image.locate(rows, depth_start)
            for index, valid in self._iterate_panels(panel, until):
                packed = self._locate_panel(index, panel)

                def compute(
                    tile: PlacedTile, _: ir.Value, packed: ir.Value = packed,
                    index: ir.Value = index, valid: int = valid,
                ) -> None:
                    sums = self.tiles.accumulate(tile, a, packed, valid, None)
                    self._finish(tile, sums, index, valid)

                self.tiles.for_each(rows, compute)

    def _emit_blocked_depth(
        self, start: ir.Value, stop: ir.Value, panel: ir.Value, until: ir.Value
    ) -> None:
        """A few units' sums wait in scratch while the blocks of the depth pass."""
        b, cut = self.b, self.cut
        with b.counted_loop(start, stop, cut.units_at_once) as first:
            last = b.minimum_of(b.add(first, constant(cut.units_at_once)), stop)

            def for_each_tile(body: Callable[..., None]) -> None:
                for index, valid in self._iterate_panels(panel, until):
                    with b.counted_loop(first, last) as unit:
                        place = b.add(b.mul(b.sub(index, panel), constant(cut.units_at_once)),
                                      b.sub(unit, first))
                        place = b.mul(place, constant(cut.tiles * self.tiles.tile_bytes))
                        rows = self._locate_unit_rows(unit)
                        body(rows, index, valid, offset_bytes(b, self.sums, place))

            def clear(rows: list[ir.Value], index: ir.Value, valid: int, sums: ir.Value) -> None:
                size = cut.lanes * self.size
                zero = ir.Constant(vector(memory_type(cut.type), cut.lanes), None)
                with b.counted_loop(0, cut.tiles * self.tiles.tile_bytes // size) as i:
                    store_vector(
                        b, zero, offset_bytes(b, sums, b.mul(i, constant(size))), self.size
                    )

            for_each_tile(clear)
            for depth_start in self._iterate_blocks():
                self._pack_panels(panel, until, depth_start)
                if cut.lines:
                    self.image.shared = self.image.pack([constant(0)] * len(cut.rows), depth_start)
                for_each_tile(self._make_adder(depth_start, panel))

            def finish(rows: list[ir.Value], index: ir.Value, valid: int, sums: ir.Value) -> None:
                self.tiles.for_each(rows, lambda tile, n: self._finish(
                    tile, self.tiles.load(tile, sums, n, valid), index, valid))

            for_each_tile(finish)

    def _iterate_panels(self, first: ir.Value, until: ir.Value) -> Iterator[tuple[ir.Value, int]]:
        """(a panel's number, its columns): emits code for full panels, and for a smaller last."""
        b, cut = self.b, self.cut
        if cut.count > 1 and cut.last == cut.width:
            with b.counted_loop(first, until) as index:
                yield index, cut.width
            return
        if cut.count > 1:
            full = b.minimum_of(until, constant(cut.count - 1))
            with b.counted_loop(first, full) as index:
                yield index, cut.width
        if cut.panels >= cut.count:
            yield constant(cut.count - 1), cut.last
            return
        with b.if_then(b.icmp_signed("==", until, constant(cut.count))):
            yield constant(cut.count - 1), cut.last

    # ------------------------------------------------------------------- positions and packing

    def _iterate_blocks(self) -> Iterator[list[ir.Value | int]]:
        """Loop over blocks of the depth: code for full blocks, and for a smaller last block."""
        b, cut = self.b, self.cut
        extents, block = cut.depth_extents, cut.block
        k = max(k for k, (n, m) in enumerate(zip(extents, block, strict=True)) if n > m)
        inner = [0] * (len(block) - k - 1)
        with b.counted_loop(0, prod(extents[:k])) as number:
            outer: list[ir.Value | int] = []
            for extent in reversed(extents[:k]):
                outer.insert(0, b.srem(number, constant(extent)))
                number = b.sdiv(number, constant(extent))
            full, rest = divmod(extents[k], block[k])
            with b.counted_loop(0, full) as i:
                yield [*outer, multiply(b, i, block[k]), *inner]
            if rest:
                cut.block = [*block[:k], rest, *block[k + 1 :]]
                yield [*outer, full * block[k], *inner]
                cut.block = block

    def _make_adder(self, depth_start: Sequence[ir.Value | int], panel: ir.Value) -> Callable[...,
                                                                                              None]:
        """Code that adds a block's products to the sums of a unit and a panel."""

        def add(rows: list[ir.Value], which: ir.Value, valid: int, sums: ir.Value) -> None:
            a, packed = self.image.locate(rows, depth_start), self._locate_panel(which, panel)

            def accumulate_tile(tile: PlacedTile, n: ir.Value) -> None:
                values = self.tiles.accumulate(tile, a, packed, valid, (sums, n))
                self.tiles.store(tile, sums, n, values, valid)

            self.tiles.for_each(rows, accumulate_tile)

        return add

    def _locate_unit_rows(self, unit: ir.Value) -> list[ir.Value]:
        """The first row of a unit, along each axis."""
        b, cut = self.b, self.cut
        out = [constant(0)] * len(cut.rows)
        extents = cut.row_extents
        for k in range(cut.first, -1, -1):
            extent = cut.unit[k]
            count = -(-extents[k] // extent)
            here = b.srem(unit, constant(count)) if k else unit
            out[k] = constant(multiply(b, here, extent))
            unit = b.sdiv(unit, constant(count)) if k else unit
        return out

    def _pack_panels(self, panel: ir.Value, until: ir.Value,
                     depth_start: Sequence[ir.Value | int]) -> None:
        b, cut, load = self.b, self.cut, self.contract.b
        column = int(load.at.stride(self.contract.column.index))  # type: ignore[arg-type]
        axes = [(n, int(load.at.stride(a.index)))  # type: ignore[arg-type]
                for a, n in zip(cut.depth, cut.block, strict=True)]
        block = StridedBlock(axes, column, cut.type, cut.lanes, cut.width, self.square)
        bindings = {a.index: constant(v) for a, v in zip(cut.depth, depth_start, strict=True)}
        start = self.image.address(load, bindings)
        for which, valid in self._iterate_panels(panel, until):
            source = offset_bytes(b, start, multiply(b, which, cut.width * column * self.size))
            pack_block(b, block, source, self._locate_panel(which, panel), valid)

    def _locate_panel(self, which: ir.Value, first: ir.Value) -> ir.Value:
        place = self.b.mul(self.b.sub(which, first), constant(self.panel_bytes))
        return offset_bytes(self.b, self.panels, place)

    def _finish(self, tile: PlacedTile, sums: Sums, which: ir.Value, valid: int) -> None:
        """The contraction's body, for every row and vector of a tile."""
        column = self.b.mul(which, constant(self.cut.width))
        self.epilogue.emit(tile, sums, column, valid, self.square, self.turning)
