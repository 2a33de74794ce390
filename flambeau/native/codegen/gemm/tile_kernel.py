"""Tile kernels of a product: a tile's sums over a block of the depth.

While a tile multiplies, it prefetches rows for the following tiles.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.cost_model import PREFETCHES_PER_TILE_ROUND, split_costs
from ..llvm.address import add, constant, multiply, offset_bytes, subtract
from ..llvm.loop import emit_loop
from ..llvm.types import Number
from ..llvm.vectors import first_lanes
from ..loops.epilogue_prefetch import L2_LOCALITY, emit_prefetch
from .bf16_pairs import dot_accumulate_first
from .blocking import is_known
from .micro_kernel import (
    DepthLoop, MicroTile, PrefetchPlan, Sums, TileSource, emit_accumulation, emit_step, zero_sums,
)
from .pack import emit_min
from .partial_sums import PartialSums
from .product import DepthBlock, PanelColumns, Product
from .tile_epilogue import TileEpilogue
from .workspace import Workspace


class TileKernel:
    """Emits tiles of one product."""

    def __init__(
        self, product: Product, workspace: Workspace, partial_sums: PartialSums,
        epilogue: TileEpilogue,
    ) -> None:
        self.product, self.workspace = product, workspace
        self.partial_sums, self.epilogue = partial_sums, epilogue
        self.builder, self.p, self.plan = product.builder, product.p, product.plan
        self.tile, self.size = product.tile, product.size

    def costs(self) -> tuple[int, int, int]:
        """Return the costs of a tile, and of loading a column panel and a row group."""
        tile, panel, group = split_costs(self.tile.rows, self.tile.vectors, self.tile.lanes)
        if not is_known(self.p.m) and self.plan.pack_b and not self.plan.pack_a:
            group //= 4  # its rows are prefetched meanwhile; static sizes gain nothing
        return tile, panel, group

    def configure(self) -> AbstractContextManager[None]:
        """Set up the machine state that tiles need."""
        return nullcontext()

    def emit(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        """Emit one tile: its sums over this depth block, then the epilogue if they are complete."""
        b, p, plan = self.builder, self.p, self.plan
        tile = MicroTile(rows, columns.vectors, self.tile.lanes, p.type)
        local = subtract(b, group, work.first_group)
        packed_index = subtract(b, panel, work.first_packed)
        first = multiply(b, group, self.tile.rows)
        a, offsets, a_step, a_type = self._locate_rows(first, local, rows, valid, work.start)
        mask = None
        if plan.pack_b:
            packed = self.workspace.packed_panel(packed_index)
            b_step, b_type = tile.columns * self.size, self.product.packed_type
        else:
            packed = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                                  multiply(b, work.start, p.b_depth))
            b_step, b_type = p.b_depth, p.b_type
            remaining = add(b, columns.count, (1 - tile.vectors) * tile.lanes)
            mask = first_lanes(b, remaining, tile.lanes)
        source = TileSource(a, offsets, packed, a_type, b_type, mask, plan.multiply)
        axis = DepthLoop(self.product.count_steps(work.depth), a_step, b_step)
        ahead = self._plan_prefetch(tile, a, packed_index, work)
        if work.ends is None:
            self.product.prefetch_epilogue(first, tile.rows, columns.first, tile.columns)
            sums = self._accumulate(tile, source, axis, work.depth, zero_sums(tile), ahead)
            self.epilogue.finish(tile, sums, first, valid, columns)
            return
        partial_sums = self.partial_sums.address(local, panel, work)
        sums = self.partial_sums.load(tile, partial_sums, work.ends[0])
        sums = self._accumulate(tile, source, axis, work.depth, sums, ahead)
        with b.if_else(work.ends[1]) as (last, more):
            with last:
                self.epilogue.finish(tile, sums, first, valid, columns)
            with more:
                self.partial_sums.store(tile, sums, partial_sums)

    def _locate_rows(
        self, first: Number, local: Number, rows: int, valid: Number, start: Number
    ) -> tuple[ir.Value, list[Number], Number, Type]:
        """Locate a group's rows of a: their address, each row's offset, bytes per step, type."""
        b, p = self.builder, self.p
        if self.plan.pack_a:
            packed = self.workspace.packed_group(local)
            offsets: list[Number] = [i * self.size for i in range(rows)]
            return packed, offsets, self.tile.rows * self.size, self.product.packed_type
        a = offset_bytes(
            b, offset_bytes(b, p.a, multiply(b, first, p.a_row)), multiply(b, start, p.a_depth)
        )
        if self.plan.pairs:  # memory already has the needed layout
            return a, self._compute_row_offsets(
                rows, valid
            ), 2 * p.a_type.size, self.product.packed_type
        return a, self._compute_row_offsets(rows, valid), p.a_depth, p.a_type

    def _accumulate(
        self, tile: MicroTile, source: TileSource, axis: DepthLoop, depth: Number, sums: Sums,
        ahead: PrefetchPlan | None,
    ) -> Sums:
        """Return a tile's sums over a depth block, added to previous sums."""
        b, plan = self.builder, self.plan
        if plan.pack_a or not plan.pairs:
            return emit_accumulation(b, tile, source, [axis], sums, plan.unroll, ahead)
        even_depth = depth // 2 if is_known(depth) else b.lshr(depth, constant(1))
        odd_depth = depth % 2 if is_known(depth) else b.and_(depth, constant(1))
        sums = emit_accumulation(
            b, tile, source, [replace(axis, extent=even_depth)], sums, plan.unroll, ahead
        )
        # Beyond a row's last element lies another row, or unmapped memory.
        last = replace(
            source, a=offset_bytes(b, source.a, multiply(b, even_depth, axis.a)), a_type=Type.I16,
            b=offset_bytes(b, source.b, multiply(b, even_depth, axis.b)),
            multiply=dot_accumulate_first,
        )
        return emit_loop(b, odd_depth, sums, lambda _, carried: emit_step(b, tile, last, carried))

    def _compute_row_offsets(self, rows: int, valid: Number) -> list[Number]:
        """Return the offsets of a tile's rows of a; a missing row repeats the last one."""
        b = self.builder
        last = add(b, valid, -1)
        return [multiply(b, emit_min(b, i, last), self.p.a_row) for i in range(rows)]

    def _plan_prefetch(
        self, tile: MicroTile, a: ir.Value, panel: Number, work: DepthBlock
    ) -> PrefetchPlan | None:
        """Prefetch, while a tile multiplies, the rows of a after the tile's.

        The hardware prefetcher stops at the end of each row or page. The tiles of a group split its
        rows; `panel` is the tile's index among the packed panels.
        """
        b, p, rows = self.builder, self.p, tile.rows
        is_cached = self.workspace.a_near or p.near
        is_gathered = not (self.plan.pack_a or p.a_depth == p.a_type.size)
        if is_cached or rows < self.tile.rows or is_gathered:
            return None
        if self.plan.pack_a:
            group = offset_bytes(b, a, self.workspace.group_bytes)
            return PrefetchPlan(1, 1, rows * self.size, lambda _: group, partial(_prefetch_line, b))
        first = multiply(b, panel, multiply(b, work.turns, PREFETCHES_PER_TILE_ROUND))
        last = max(rows - PREFETCHES_PER_TILE_ROUND, 0)

        def start(turn: ir.Value) -> ir.Value:
            row = emit_min(b, add(b, first, multiply(b, turn, PREFETCHES_PER_TILE_ROUND)), last)
            return offset_bytes(b, a, multiply(b, add(b, row, rows), p.a_row))

        def ask(place: ir.Value) -> None:
            for i in range(min(rows, PREFETCHES_PER_TILE_ROUND)):
                _prefetch_line(b, offset_bytes(b, place, multiply(b, i, p.a_row)))

        size = self.size if self.plan.pairs else p.a_type.size
        return PrefetchPlan(work.turns, -(-rows // PREFETCHES_PER_TILE_ROUND), size, start, ask)


def _prefetch_line(b: ir.IRBuilder, place: ir.Value) -> None:
    """Prefetch the line of an address."""
    emit_prefetch(b, place, False, L2_LOCALITY)
