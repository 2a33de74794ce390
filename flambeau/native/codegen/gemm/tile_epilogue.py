"""The epilogue of a product: the computation on a tile's sums."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.types import Number
from ..llvm.vectors import first_lanes, load_vector
from ..loops.epilogue import emit_epilogue
from ..loops.privatized_sums import accumulate_in_registers
from .blocking import is_cheap_epilogue, is_known
from .micro_kernel import MicroTile, Sums
from .partial_sums import PartialSums
from .product import PanelColumns, Product
from .workspace import Workspace


class TileEpilogue:
    """Emits the Contract's body for the elements of tiles.

    A cheap body runs on registers, one vector after another. A long one is emitted once, in loops
    over sums in memory.
    """

    def __init__(self, product: Product, workspace: Workspace, partial_sums: PartialSums) -> None:
        self.context, self.statement = product.context, product.statement
        self.builder, self.size = product.builder, product.size
        self.row, self.column = product.row, product.column
        self.workspace, self.partial_sums = workspace, partial_sums
        self.cheap = is_cheap_epilogue(product.statement.body)

    def finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Run the epilogue on a tile's sums."""
        b = self.builder
        is_full = is_known(valid) and (is_known(columns.count))
        if self.cheap and is_full:
            self._run_on_registers(tile, sums, first, columns)
            return
        if not self.cheap:
            self._run_through_memory(tile, sums, first, valid, columns)
            return
        full = b.icmp_signed("==", constant(add(b, valid, columns.count)),
                             constant(tile.rows + tile.columns))
        with b.if_else(full) as (all_of_it, edge):
            with all_of_it:
                self._run_on_registers(tile, sums, first, replace(columns, count=tile.columns))
            with edge:
                self._run_through_memory(tile, sums, first, valid, columns)

    def _run_on_registers(
        self, tile: MicroTile, sums: Sums, first: Number, columns: PanelColumns
    ) -> None:
        """Run it on registers, one vector after another."""
        b = self.builder
        starts = [constant(add(b, columns.first, j * tile.lanes)) for j in range(tile.vectors)]
        with accumulate_in_registers(self.context):
            for i in range(tile.rows):
                bindings = {self.row: constant(add(b, first, i))}
                for j, start in enumerate(starts):
                    mask = first_lanes(b, add(b, columns.count, -j * tile.lanes), tile.lanes)
                    emit_epilogue(self.context, self.statement.body, bindings, (self.column, start),
                                  tile.lanes, sums[i * tile.vectors + j], mask)

    def _run_through_memory(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Run it through memory, in loops over rows and vectors: a long epilogue is emitted once.
        """
        slot = self.workspace.tile_slot()
        self.partial_sums.store(tile, sums, slot)
        self.run_on_memory(tile, slot, first, valid, columns)

    def run_on_memory(
        self, tile: MicroTile, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Run the epilogue on sums in memory."""
        b = self.builder
        step = tile.lanes * self.size
        exact = is_known(columns.count) and columns.count == tile.columns
        count = 2 if exact and self._takes_two_vectors(tile) else 1  # vectors at once
        lanes = tile.lanes * count
        with b.counted_loop(0, valid) as i:
            bindings = {self.row: constant(add(b, first, i))}
            source = offset_bytes(b, slot, multiply(b, i, tile.vectors * step))
            with b.counted_loop(0, tile.vectors // count) as j:
                offset = multiply(b, j, lanes)
                start = constant(add(b, columns.first, offset))
                here = offset_bytes(b, source, multiply(b, offset, self.size))
                value = load_vector(b, here, tile.type, lanes)
                mask = None
                if not exact:
                    remaining = b.sub(constant(columns.count), constant(offset))
                    mask = first_lanes(b, remaining, lanes)
                emit_epilogue(self.context, self.statement.body, bindings, (self.column, start),
                              lanes, value, mask)

    def _takes_two_vectors(self, tile: MicroTile) -> bool:
        """Whether a long epilogue processes two vectors at a time: AVX2."""
        return tile.vectors % 2 == 0 and self.context.target.vector_bytes == 32
