"""Prefetch the data of a Winograd convolution's epilogue while tiles multiply.

A tile's outputs are far apart in memory, so the epilogue would stall on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ...loop_ir.ir import Contract, Load, Store
from ...target.cost_model import MAX_PREFETCHED_EPILOGUE_STREAMS
from ..conv.direct_tile import collect_epilogue_accesses
from ..llvm.address import constant, offset_bytes
from ..llvm.builder import I32, POINTER, Builder
from ..loops.context import Context
from .plan import WinogradPlan
from .transforms import InputTiles

_READ_INTO_L2 = (ir.Constant(I32, 0), ir.Constant(I32, 2), ir.Constant(I32, 1))  # of a prefetch


class EpiloguePrefetch:
    """The streams of an epilogue, and a table of their addresses at each tile of a batch.

    `table` is the address of the table.
    """

    def __init__(
        self, context: Context, contract: Contract, cut: WinogradPlan, tiles: InputTiles
    ) -> None:
        self.context, self.contract, self.cut, self.tiles = context, contract, cut, tiles
        self.b: Builder = context.builder
        self.streams = self._find_streams()
        self.table: ir.Value | None = None

    def _find_streams(self) -> list[Load | Store]:
        """Find the epilogue's column-wise streams, whose address depends on the row."""
        column, rows = self.contract.column.index, self.contract.rows
        streams = {
            (access.buffer, access.at): access for access
            in collect_epilogue_accesses(self.contract)
            if access.at.stride(column) == 1 and any(access.at.stride(a.index) for a in rows)
            and all(isinstance(stride, int) for _, stride in access.at.terms)
        }
        return list(streams.values())[:MAX_PREFETCHED_EPILOGUE_STREAMS]

    def note_addresses(self, first: ir.Value, count: ir.Value) -> None:
        """Store each stream's address at each tile of a batch."""
        b = self.b
        zeros = {axis.index: constant(0) for axis in self.contract.rows}
        zeros[self.contract.column.index] = constant(0)
        with b.counted_loop(constant(0), count) as i:
            place = zeros | self.tiles.place(b.add(first, i))
            for k, stream in enumerate(self.streams):
                address = self.context.address(stream.buffer, stream.at, place)
                b.store(address, self._locate_table_entry(k, i), align=8)

    def _locate_table_entry(self, stream: int, tile: ir.Value) -> ir.Value:
        start = offset_bytes(self.b, self.table, stream * 8 * (self.cut.batch + self.cut.rows))
        return offset_bytes(self.b, start, self.b.mul(tile, constant(8)))

    def offset_in_tile(self, stream: Load | Store, place: ir.Value, panel: ir.Value) -> ir.Value:
        """Return the offset in a tile's stream to prefetch during one of the sixteen products."""
        b, cut = self.b, self.cut
        step = b.minimum_of(place, constant(4 * cut.vectors - 1))
        pixel, vector = b.udiv(step, constant(cut.vectors)), b.urem(step, constant(cut.vectors))
        down, right = (int(stream.at.stride(side.row.index)) for side in cut.sides)  # type: ignore[arg-type]
        offset = b.add(b.mul(b.lshr(pixel, constant(1)), constant(down)),
                       b.mul(b.and_(pixel, constant(1)), constant(right)))
        offset = b.add(offset, b.mul(panel, constant(cut.width)))
        offset = b.add(offset, b.mul(vector, constant(cut.lanes)))
        return b.mul(offset, constant(stream.buffer.type.size))

    def fetch(self, tile: ir.Value, ahead: Sequence[ir.Value]) -> None:
        b = self.b
        for k, offset in enumerate(ahead):
            noted = self._locate_table_entry(k, tile)
            for i in range(self.cut.rows):
                address = b.load(offset_bytes(b, noted, 8 * i), typ=POINTER, align=8)
                b.intrinsic(
                    "prefetch",
                    ir.VoidType(),
                    (offset_bytes(b, address, offset), *_READ_INTO_L2),
                    overloads=(POINTER,),
                )
