"""The tiles of a unit of rows: their order, and their sums in registers or in scratch."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...loop_ir.ir import Contract
from ..gemm.micro_kernel import Sums, TileSource, emit_accumulation
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..llvm.vectors import load_vector, store_vector
from .direct_blocking import ConvPlan
from .direct_image import ImageOperand
from .direct_tile import PlacedTile


class UnitTiles:
    """Emits code for every tile of a unit."""

    def __init__(
        self, b: Builder, contract: Contract, cut: ConvPlan, image: ImageOperand
    ) -> None:
        self.b, self.contract, self.cut, self.image = b, contract, cut, image
        self.size = cut.type.size
        self.tile_bytes = cut.shape.rows * cut.width * self.size

    def for_each(self, rows: list[ir.Value], body: Callable[..., None]) -> None:
        """Emit body(tile, its number in the unit) for every tile of a unit."""
        self._for_each_from(self.cut.first, rows, list(rows), constant(0), body)

    def _for_each_from(self, k: int, start: list[ir.Value], rows: list[ir.Value], number: ir.Value,
                       body: Callable[..., None]) -> None:
        b, cut = self.b, self.cut
        shape, extent, unit = cut.shape, cut.row_extents[k], cut.unit[k]
        step = shape.extent if k == shape.axis else 1
        partial = extent % unit != 0  # only along `first`: the last unit is smaller
        remaining = b.minimum_of(b.sub(constant(extent), start[k]), constant(unit)) if partial \
            else constant(unit)
        full_steps: ir.Value | int = b.sdiv(remaining, constant(step)) if partial else unit // step

        def at(i: ir.Value | int, size: int) -> None:
            moved_rows = list(rows)
            moved_rows[k] = constant(add(b, start[k], multiply(b, i, step)))
            if k == shape.axis:
                placed = PlacedTile(cut, self.contract, b, start, moved_rows, size)
                body(placed, constant(add(b, number, i)))
                return
            count = -(-cut.unit[k + 1] // (shape.extent if k + 1 == shape.axis else 1))
            inner = constant(multiply(b, b.add(number, constant(i)), count))
            self._for_each_from(k + 1, start, moved_rows, inner, body)

        if isinstance(full_steps, ir.Value) or full_steps > 1:
            with b.counted_loop(0, full_steps) as i:
                at(i, shape.extent)
        elif full_steps == 1:
            at(0, shape.extent)
        if k != shape.axis or not extent % step:
            return
        if unit % step and unit == extent:  # the unit is the whole axis
            at(full_steps, extent % step)
            return
        begins = extent - extent % step  # only in the last unit
        here = b.icmp_signed(">", b.add(start[k], remaining), constant(begins))
        with b.if_then(here):
            at(b.sdiv(remaining, constant(step)), extent % step)

    def accumulate(self, tile: PlacedTile, a: ir.Value, packed: ir.Value, valid: int,
                   waiting_sums: tuple[ir.Value, ir.Value] | None) -> Sums:
        """Return a tile's sums over a depth block."""
        b, cut = self.b, self.cut
        for axis, row, start in zip(cut.rows, tile.rows, tile.start, strict=True):
            if row is not start:
                delta = b.sub(row, start)
                a = offset_bytes(b, a, b.mul(delta, constant(self.image.a_stride(axis.index))))
        source = TileSource(a, tile.offsets(self.image.a_stride), packed, cut.type, cut.type)
        sums = None if waiting_sums is None else self.load(tile, *waiting_sums, valid)
        return emit_accumulation(b, tile.shape(valid), source, self.image.depth_loops(), sums)

    def _locate_sums(
        self, tile: PlacedTile, sums: ir.Value, n: ir.Value, valid: int
    ) -> list[ir.Value]:
        b = self.b
        shape, step = tile.shape(valid), self.cut.lanes * self.size
        base = offset_bytes(b, sums, b.mul(n, constant(self.tile_bytes)))
        return [offset_bytes(b, base, i * step) for i in range(shape.rows * shape.vectors)]

    def load(self, tile: PlacedTile, sums: ir.Value, n: ir.Value, valid: int) -> Sums:
        """Load the sums of tile `n` of a unit, whose sums start at `sums`."""
        return [load_vector(self.b, place, self.cut.type, self.cut.lanes)
                for place in self._locate_sums(tile, sums, n, valid)]

    def store(
        self, tile: PlacedTile, sums: ir.Value, n: ir.Value, values: Sums, valid: int
    ) -> None:
        """Write the sums of tile `n` to memory."""
        addresses = self._locate_sums(tile, sums, n, valid)
        for value, place in zip(values, addresses, strict=True):
            store_vector(self.b, value, place, self.size)
