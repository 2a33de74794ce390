"""The macro-kernel of a matrix product in any transposition: packing, blocking, loops over tiles.

for blocks of rows: for a few panels of columns: for groups of rows: for each panel: a tile.
Operands that a tile would read badly are packed first. A long depth is cut into blocks whose
partial sums stay in memory. Known extents get exact edge tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Contract, Type
from ..llvm.scratch_abi import GIVE, TAKE, USABLE_BYTES
from ..loops.epilogue import emit_epilogue
from ..loops.epilogue_prefetch import (
    L2_LOCALITY, count_stream_bytes, emit_prefetch, find_epilogue_streams, prefetch_tile,
)
from ...target.cost_model import MIN_EPILOGUE_PREFETCH_BYTES
from .blocking import GemmPlan, GemmProblem, is_cheap_epilogue, is_known
from ...target.cost_model import (
    L1_BYTES, PACKED_A_BYTES, PARTIAL_SUM_BYTES, PARTIAL_SUM_BYTES_WITHOUT_A, L2Budget, split_costs,
)
from ..loops.privatized_sums import accumulate_in_registers
from .pack import PackedPanel, min_of, pack_groups, pack_panel
from .bf16_pairs import count_pair_steps, dot_accumulate, dot_accumulate_first
from ..loops.work_partition import TileRange, split_tiles
from .micro_kernel import (
    DepthLoop, MicroTile, PrefetchPlan, Sums, TileSource, emit_accumulation, emit_step, zero_sums,
)
from ..llvm.loop import emit_loop
from ..llvm.vectors import first_lanes, load_vector, store_vector
from ..llvm.address import add, ceil_divide, constant, multiply, offset_bytes
from ..llvm.types import BYTE, I64, POINTER, Number
from ...target.cost_model import PREFETCHES_PER_TILE_ROUND

_MAX_STACK_BYTES = 64 << 10  # bytes of working memory that a stack has room for


@dataclass(frozen=True)
class PanelColumns:
    """A panel of columns: its first column, and how many columns and vectors it has."""

    first: Number
    count: Number
    vectors: int


class MacroKernel:
    """Emits one product."""

    narrows = True  # whether the last of an unknown number of panels has tiles of its own

    def __init__(self, context: Any, statement: Contract, p: GemmProblem, plan: GemmPlan) -> None:
        self.context, self.statement, self.p, self.plan = context, statement, p, plan
        self.builder = context.builder
        self.tile = plan.tile
        self.cheap = is_cheap_epilogue(statement.body)
        self.row, self.column = p.row, statement.column.index
        self._slot: ir.Value | None = None
        streams = find_epilogue_streams(statement.body, self.row, self.column)
        self.streams = (
            streams if count_stream_bytes(streams, p.m, p.n) >= MIN_EPILOGUE_PREFETCH_BYTES else []
        )
        self.size = p.type.size
        self.packed = Type.I32 if plan.pairs else p.type  # what panels hold
        self._memory()

    # --------------------------------------------------------------------- memory

    def _memory(self) -> None:
        """The parts of the scratch memory: packed a, packed b, partial sums."""
        b, plan, tile, p = self.builder, self.plan, self.tile, self.p
        self.tile_bytes = tile.rows * tile.columns * self.size
        depth: Number = plan.depth if is_known(p.k) else min_of(b, p.k, plan.depth)
        self.group_bytes = self.bytes_of_panel(depth, tile.rows, p.a_type)
        groups, panels = ceil_divide(b, p.m, tile.rows), ceil_divide(b, p.n, tile.columns)
        self.panel_bytes = self.bytes_of_panel(depth, tile.columns, p.b_type)
        near = L2Budget(self.context.target.near)
        self.a_near = is_known(p.m) and is_known(p.k) and p.m * p.k * self.size <= near.a
        far = not is_known(self.panel_bytes) or (self.panel_bytes > L1_BYTES and not self.a_near)
        room = near.panels if far else near.row_panels
        most = self._quotient(room, self.panel_bytes)
        self.near_panels = min_of(b, panels, most)
        self._blocks(groups, panels)
        packed = multiply(b, self.block_groups, self.group_bytes)
        a = (packed if is_known(packed) else PACKED_A_BYTES) if plan.pack_a else 0
        packed_b_bytes = multiply(b, self.near_panels, self.panel_bytes)
        if not is_known(packed_b_bytes):  # one panel there is always
            packed_b_bytes = max(room, plan.depth * tile.columns * self.size)
        panels_bytes = packed_b_bytes if plan.pack_b else 0
        self.b_at = _align_to_line(a)
        self.sums_at = self.b_at + _align_to_line(panels_bytes)
        self.bytes = self.sums_at + (self._sums_room() if plan.cut else 0)
        assert self.bytes <= USABLE_BYTES, self.bytes

    def _blocks(self, groups: Number, panels: Number) -> None:
        """How many row groups and column panels are computed together.

        While the depth is cut, their partial sums stay in memory: of the packed groups and some
        panels, or of the packed panels and some groups.
        """
        b, plan, p = self.builder, self.plan, self.p
        self.block_groups, self.block_panels = groups, panels
        if plan.pack_a:
            self.block_groups = min_of(b, groups, self._quotient(PACKED_A_BYTES, self.group_bytes))
        if not plan.cut:
            return
        whole, others = (self.block_groups, panels) if plan.pack_a else (self.near_panels, groups)
        most = self._quotient(self._sums_room(), multiply(b, whole, self.tile_bytes))
        if not is_known(p.k):  # sums are not kept when the depth turns out short
            short = b.icmp_signed("<=", p.k, constant(plan.depth))
            most = b.select(short, constant(others), constant(most))
        some = min_of(b, others, most)
        self.block_groups, self.block_panels = (whole, some) if plan.pack_a else (some, whole)

    def _sums_room(self) -> int:
        """Bytes for partial sums."""
        return PARTIAL_SUM_BYTES if self.plan.pack_a else PARTIAL_SUM_BYTES_WITHOUT_A

    def bytes_of_panel(self, depth: Number, width: int, stored: Type) -> Number:
        """Of a packed panel of elements that are stored as a type."""
        return multiply(self.builder, self._steps(depth), width * self.size)

    def _steps(self, depth: Number) -> Number:
        """How many steps of packed panels a depth makes."""
        return count_pair_steps(self.builder, depth, self.plan.pairs)

    def _quotient(self, most: int, size: Number) -> Number:
        """How many of a size fit: one at least."""
        if isinstance(size, int):
            return max(1, most // max(size, 1))
        b = self.builder
        some = b.select(b.icmp_signed(">", size, constant(0)), size, constant(1))
        fit = b.udiv(constant(most), some)
        return b.select(b.icmp_signed(">", fit, constant(0)), fit, constant(1))

    def _take(self) -> Callable[[], None]:
        """Gets the working memory; returns what gives it back."""
        b = self.builder
        if not self.bytes:
            return lambda: None
        if self.bytes <= _MAX_STACK_BYTES:
            self.memory = self._stack(self.bytes)
            return lambda: None
        take, give = (_declare_external(b.module, name, kind) for name, kind in (
            (TAKE, ir.FunctionType(POINTER, [I64])),
            (GIVE, ir.FunctionType(ir.VoidType(), [POINTER])),
        ))
        self.memory = b.call(take, [self.context.tid])
        return lambda: b.call(give, [self.memory])

    def _tile_slot(self) -> ir.Value:
        """Stack memory for one tile's sums."""
        if self._slot is None:
            self._slot = self._stack(self.tile_bytes)
        return self._slot

    def _stack(self, size: int) -> ir.Value:
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(ir.ArrayType(BYTE, size))
            slot.align = 64
            slot.type = POINTER
            return slot

    # ---------------------------------------------------------------------- loops

    def emit(self) -> None:
        """The whole product, or this thread's share of it."""
        b, tile, p = self.builder, self.tile, self.p
        groups, panels = ceil_divide(b, p.m, tile.rows), ceil_divide(b, p.n, tile.columns)
        share = TileRange(0, groups, 0, panels)
        if not self.context.parallel:
            share = split_tiles(
                b, self.context.tid, self.context.threads, groups, panels, self.costs()
            )
            if self.bytes > _MAX_STACK_BYTES:  # idle threads take nothing
                busy = b.icmp_signed("<", constant(share.first_group), constant(share.last_group))
                with b.if_then(busy):
                    self._share(share)
                return
        self._share(share)

    def costs(self) -> tuple[int, int, int]:
        """Of a tile, and of bringing a panel of columns and a group of rows near."""
        tile, panel, group = split_costs(self.tile.rows, self.tile.vectors, self.tile.lanes)
        if not is_known(self.p.m) and self.plan.pack_b and not self.plan.pack_a:
            group //= 4  # its rows are asked for meanwhile; known sizes gain nothing by it
        return tile, panel, group

    def _share(self, share: TileRange) -> None:
        give = self._take()
        def row_block(g0: Number, g1: Number) -> None:
            if not self.plan.cut:
                self._block(g0, g1, share.first_panel, share.last_panel, 0, self.p.k, None)
                return
            self._each(share.first_panel, share.last_panel, self.block_panels,
                       lambda p0, p1: self._cut(g0, g1, p0, p1))

        whole = not (self.plan.pack_a or self.plan.cut)
        if whole or (is_known(groups := ceil_divide(self.builder, self.p.m, self.tile.rows))
                     and groups == self.block_groups):
            row_block(share.first_group, share.last_group)
        else:
            self._each(share.first_group, share.last_group, self.block_groups, row_block)
        give()

    def _each(
        self, first: Number, last: Number, step: Number, body: Callable[[Number, Number], None]
    ) -> None:
        """body(start, end) for stretches of at most `emit_step` between first and last."""
        b = self.builder
        count = ceil_divide(b, b.sub(constant(last), constant(first)), step)

        def round(i: ir.Value, _: Sums) -> Sums:
            start = add(b, first, multiply(b, i, step))
            body(start, min_of(b, add(b, start, step), last))
            return []

        emit_loop(b, count, [], round)

    def _between(self, first: Number, last: Number, body: Callable[[Number], None]) -> None:
        """body(i) for first <= i < last."""
        b = self.builder
        if isinstance(first, int) and isinstance(last, int):
            extent: Number = last - first
        else:
            extent = b.sub(constant(last), constant(first))

        def round(i: ir.Value, _: Sums) -> Sums:
            body(add(b, first, i))
            return []

        emit_loop(b, extent, [], round)

    def _cut(self, g0: Number, g1: Number, p0: Number, p1: Number) -> None:
        """A block of rows and panels whose depth is cut: partial sums stay in memory."""
        b, plan, p = self.builder, self.plan, self.p
        blocks = ceil_divide(b, p.k, plan.depth)
        if not is_known(blocks):  # a depth of nothing still has its epilogue
            blocks = b.select(b.icmp_signed(">", blocks, constant(0)), blocks, constant(1))

        def block(i: ir.Value, _: Sums) -> Sums:
            start = multiply(b, i, plan.depth)
            depth: Number = plan.depth
            if not (is_known(p.k) and p.k % plan.depth == 0):
                depth = min_of(b, plan.depth, b.sub(constant(p.k), start))
            last = b.icmp_signed("==", add(b, i, 1), constant(blocks))
            self._block(g0, g1, p0, p1, start, depth, (b.icmp_signed("==", i, constant(0)), last))
            return []

        emit_loop(b, blocks, [], block)

    def _block(
        self, g0: Number, g1: Number, p0: Number, p1: Number, start: Number, depth: Number,
        ends: tuple[ir.Value, ir.Value] | None,
    ) -> None:
        """Rows' groups times panels over one stretch of the depth.

        `ends`: whether it is the first and the last stretch, where the depth is cut.
        """
        b = self.builder
        if self.plan.pack_a:
            self._pack_a(g0, g1, start, depth)

        def panels(q0: Number, q1: Number) -> None:
            if self.plan.pack_b:
                self._pack_panels(q0, q1, start, depth)
            turns = ceil_divide(
                b, -(-self.tile.rows // PREFETCHES_PER_TILE_ROUND), subtract(b, q1, q0)
            )
            work = DepthBlock(start, depth, ends, g0, p0, q0, turns)

            def group(g: Number, rows: int, valid: Number) -> None:
                self._over_panels(
                    q0, q1, lambda i, columns: self._tile(g, rows, valid, i, columns, work)
                )

            self._over_groups(g0, g1, group)

        self._each(p0, p1, self.near_panels, panels)

    def _over_panels(
        self, first: Number, last: Number, body: Callable[[Number, PanelColumns], None]
    ) -> None:
        """body(panel, its columns); the edge panel has a body of its own, by its vectors."""
        b, n, width, lanes = self.builder, self.p.n, self.tile.columns, self.tile.lanes
        if not is_known(n):
            self._over_unknown(first, last, body)
            return
        full, tail = divmod(n, width)
        if full:
            self._between(first, min_of(b, last, full), lambda i: body(
                i, PanelColumns(multiply(b, i, width), width, self.tile.vectors)))
        if tail:
            edge = PanelColumns(full * width, tail, -(-tail // lanes))
            self._if_beyond(last, full, lambda: body(full, edge))

    def _over_unknown(
        self, first: Number, last: Number, body: Callable[[Number, PanelColumns], None]
    ) -> None:
        """Panels of whose columns the last vector may be part; then one of fewer vectors."""
        b, n, width, lanes = self.builder, constant(self.p.n), self.tile.columns, self.tile.lanes
        most = self.tile.vectors

        def panel(i: Number) -> None:
            start = multiply(b, i, width)
            body(i, PanelColumns(start, min_of(b, width, b.sub(n, constant(start))), most))

        if not self.narrows:
            self._between(first, last, panel)
            return
        wide = b.udiv(b.add(n, constant(lanes - 1)), constant(width))
        self._between(first, min_of(b, last, wide), panel)
        left = b.sub(n, b.mul(wide, constant(width)))
        for vectors in range(1, most):
            edge = PanelColumns(multiply(b, wide, width), left, vectors)
            low, high = constant((vectors - 1) * lanes), constant(vectors * lanes)
            fits = b.and_(b.icmp_signed(">", left, low), b.icmp_signed("<=", left, high))
            self._if_beyond(last, wide, partial(body, wide, edge), fits)

    def _over_groups(
        self, first: Number, last: Number, body: Callable[[Number, int, Number], None]
    ) -> None:
        """body(group, rows of the tile, rows that exist)."""
        b, m, rows = self.builder, self.p.m, self.tile.rows
        if not (is_known(m) or self.p.near):
            self._between(first, last, lambda g: body(
                g, rows, min_of(b, rows, b.sub(m, constant(multiply(b, g, rows))))))
            return
        if is_known(m):
            full, tail = divmod(m, rows)
            edge = tail
        else:  # the last tile goes beyond the rows that there are
            full, tail, edge = b.udiv(m, constant(rows)), b.urem(m, constant(rows)), rows
        if full != 0:
            self._between(first, min_of(b, last, full), lambda g: body(g, rows, rows))
        if tail != 0:
            self._if_beyond(last, full, lambda: body(full, edge, tail))

    def _if_beyond(
        self, end: Number, start: Number, body: Callable[[], None], fits: ir.Value | None = None
    ) -> None:
        """The edge part, for the thread whose share reaches over it, where it `fits`."""
        if isinstance(end, int) and isinstance(start, int):
            if end > start:
                body()
            return
        b = self.builder
        beyond = b.icmp_signed(">", constant(end), constant(start))
        with b.if_then(beyond if fits is None else b.and_(beyond, fits)):
            body()

    def _pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Packs the rows of a block, group by group."""
        b, p, rows = self.builder, self.p, self.tile.rows
        first = multiply(b, g0, rows)
        pointer = offset_bytes(
            b, offset_bytes(b, p.a, multiply(b, first, p.a_row)), multiply(b, start, p.a_depth)
        )
        valid = min_of(b, subtract(b, p.m, first), multiply(b, subtract(b, g1, g0), rows))
        panel = PackedPanel(pointer, p.a_row, p.a_depth, p.a_type, self.packed, rows, valid, depth,
                      self.tile.lanes, self.plan.pairs)
        pack_groups(b, panel, self.memory, subtract(b, g1, g0), self.group_bytes)

    def _pack_panels(self, q0: Number, q1: Number, start: Number, depth: Number) -> None:
        """Packs the panels that are kept near: those of full width in long runs of memory."""
        b, p, width = self.builder, self.p, self.tile.columns
        first = q0
        if p.b_column == p.b_type.size and is_known(p.n):
            first = min_of(b, q1, p.n // width)
            count = subtract(b, first, q0)
            at = offset_bytes(
                b,
                offset_bytes(b, p.b, multiply(b, multiply(b, q0, width), p.b_column)),
                multiply(b, start, p.b_depth),
            )
            panel = PackedPanel(at, p.b_column, p.b_depth, p.b_type, self.packed, width,
                          multiply(b, count, width), depth, self.tile.lanes,
                          self.plan.pairs)
            pack_groups(b, panel, self._packed(0), count, self.panel_bytes)
        self._pack_each(first, q1, q0, start, depth)

    def _pack_each(
        self, first: Number, last: Number, q0: Number, start: Number, depth: Number
    ) -> None:
        """Packs panels one after another; `q0`: the first of those that are kept near."""
        self._over_panels(first, last, lambda i, columns: self._pack_b(
            columns, subtract(self.builder, i, q0), start, depth))

    def _pack_b(self, columns: PanelColumns, local: Number, start: Number, depth: Number) -> None:
        """Packs a panel of columns, the `local`-th of those that are kept near."""
        b, p, tile = self.builder, self.p, self.tile
        at = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                   multiply(b, start, p.b_depth))
        width = columns.vectors * tile.lanes
        panel = PackedPanel(at, p.b_column, p.b_depth, p.b_type, self.packed, width, columns.count,
                      depth, tile.lanes, self.plan.pairs)
        pack_panel(b, panel, self._packed(local))

    def _packed(self, local: Number) -> ir.Value:
        """Where a packed panel of b lies."""
        b = self.builder
        return offset_bytes(
            b, offset_bytes(b, self.memory, self.b_at), multiply(b, local, self.panel_bytes)
        )

    # ----------------------------------------------------------------------- tiles

    def _tile(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        """One tile: its sums over this stretch of the depth, and what becomes of them."""
        b, p, plan = self.builder, self.p, self.plan
        tile = MicroTile(rows, columns.vectors, self.tile.lanes, p.type)
        local = subtract(b, group, work.g0)
        near = subtract(b, panel, work.near)
        first = multiply(b, group, self.tile.rows)
        a, offsets, a_step, a_type = self._rows_of_a(first, local, rows, valid, work.start)
        mask = None
        if plan.pack_b:
            at = self._packed(near)
            b_step, b_type = tile.columns * self.size, self.packed
        else:
            at = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                       multiply(b, work.start, p.b_depth))
            b_step, b_type = p.b_depth, p.b_type
            left = add(b, columns.count, (1 - tile.vectors) * tile.lanes)
            mask = first_lanes(b, left, tile.lanes)
        source = TileSource(
            a, offsets, at, a_type, b_type, mask, dot_accumulate if plan.pairs else None
        )
        axis = DepthLoop(self._steps(work.depth), a_step, b_step)
        ahead = self._following(tile, a, near, work)
        if work.ends is None:
            prefetch_tile(self.context, self.streams, (self.row, first, tile.rows),
                  (self.column, columns.first, tile.columns))
            sums = self._sums(tile, source, axis, work.depth, zero_sums(tile), ahead)
            self._finish(tile, sums, first, valid, columns)
            return
        partial_sums = self._kept(local, panel, work)
        sums = self._resumed(tile, partial_sums, work.ends[0])
        sums = self._sums(tile, source, axis, work.depth, sums, ahead)
        with b.if_else(work.ends[1]) as (last, more):
            with last:
                self._finish(tile, sums, first, valid, columns)
            with more:
                self._keep(tile, sums, partial_sums)

    def _rows_of_a(
        self, first: Number, local: Number, rows: int, valid: Number, start: Number
    ) -> tuple[ir.Value, list[Number], Number, Type]:
        """A group's rows of a: where they are, each row's offset, bytes of a step, its type."""
        b, p = self.builder, self.p
        if self.plan.pack_a:
            packed = offset_bytes(b, self.memory, multiply(b, local, self.group_bytes))
            offsets: list[Number] = [i * self.size for i in range(rows)]
            return packed, offsets, self.tile.rows * self.size, self.packed
        a = offset_bytes(
            b, offset_bytes(b, p.a, multiply(b, first, p.a_row)), multiply(b, start, p.a_depth)
        )
        if self.plan.pairs:  # they lie in memory as they are wanted
            return a, self._rows(rows, valid), 2 * p.a_type.size, self.packed
        return a, self._rows(rows, valid), p.a_depth, p.a_type

    def _sums(
        self, tile: MicroTile, source: TileSource, axis: DepthLoop, depth: Number, sums: Sums,
        ahead: PrefetchPlan | None,
    ) -> Sums:
        """A tile's sums over a stretch of the depth, added to those so far."""
        b, plan = self.builder, self.plan
        if plan.pack_a or not plan.pairs:
            return emit_accumulation(b, tile, source, [axis], sums, plan.unroll, ahead)
        whole = depth // 2 if is_known(depth) else b.lshr(depth, constant(1))
        odd = depth % 2 if is_known(depth) else b.and_(depth, constant(1))
        sums = emit_accumulation(
            b, tile, source, [replace(axis, extent=whole)], sums, plan.unroll, ahead
        )
        # What follows a row's last number is another row's, or nobody's.
        last = replace(
            source, a=offset_bytes(b, source.a, multiply(b, whole, axis.a)), a_type=Type.I16,
            b=offset_bytes(b, source.b, multiply(b, whole, axis.b)), multiply=dot_accumulate_first,
        )
        return emit_loop(b, odd, sums, lambda _, carried: emit_step(b, tile, last, carried))

    def _rows(self, rows: int, valid: Number) -> list[Number]:
        """Where a tile's rows of a begin; one that is not there repeats the last one."""
        b = self.builder
        last = add(b, valid, -1)
        return [multiply(b, min_of(b, i, last), self.p.a_row) for i in range(rows)]

    def _following(
        self, tile: MicroTile, a: ir.Value, panel: Number, work: DepthBlock
    ) -> PrefetchPlan | None:
        """Prefetches, while a tile multiplies, the rows of a after the tile's.

        The hardware prefetcher stops at the end of each row or page. The tiles of a group split its
        rows; `panel` is the tile's index among the packed panels.
        """
        b, p, rows = self.builder, self.p, tile.rows
        near = self.a_near or p.near
        if near or rows < self.tile.rows or not (self.plan.pack_a or p.a_depth == p.a_type.size):
            return None
        if self.plan.pack_a:
            group = offset_bytes(b, a, self.group_bytes)
            return PrefetchPlan(1, 1, rows * self.size, lambda _: group, partial(_prefetch_line, b))
        first = multiply(b, panel, multiply(b, work.turns, PREFETCHES_PER_TILE_ROUND))
        last = max(rows - PREFETCHES_PER_TILE_ROUND, 0)

        def start(turn: ir.Value) -> ir.Value:
            row = min_of(b, add(b, first, multiply(b, turn, PREFETCHES_PER_TILE_ROUND)), last)
            return offset_bytes(b, a, multiply(b, add(b, row, rows), p.a_row))

        def ask(place: ir.Value) -> None:
            for i in range(min(rows, PREFETCHES_PER_TILE_ROUND)):
                _prefetch_line(b, offset_bytes(b, place, multiply(b, i, p.a_row)))

        size = self.size if self.plan.pairs else p.a_type.size
        return PrefetchPlan(work.turns, -(-rows // PREFETCHES_PER_TILE_ROUND), size, start, ask)

    def _resumed(self, tile: MicroTile, partial_sums: ir.Value, fresh: ir.Value) -> Sums:
        """The sums so far; zero on the first stretch."""
        b = self.builder
        before = b.block
        read, go_on = b.append_basic_block("resume"), b.append_basic_block("sums")
        b.cbranch(fresh, go_on, read)
        b.position_at_end(read)
        step = tile.lanes * self.size
        loaded = [load_vector(b, offset_bytes(b, partial_sums, i * step), tile.type, tile.lanes)
                  for i in range(tile.rows * tile.vectors)]
        b.branch(go_on)
        b.position_at_end(go_on)
        out = []
        for vector in loaded:
            phi = b.phi(vector.type)
            phi.add_incoming(ir.Constant(vector.type, None), before)
            phi.add_incoming(vector, read)
            out.append(phi)
        return out

    def _kept(self, local: Number, panel: Number, work: DepthBlock) -> ir.Value:
        """Where a tile's partial sums are; `local`: which of the block's groups it is in."""
        b = self.builder
        index = add(b, multiply(b, local, self.block_panels), subtract(b, panel, work.p0))
        return offset_bytes(
            b, offset_bytes(b, self.memory, self.sums_at), multiply(b, index, self.tile_bytes)
        )

    def _keep(self, tile: MicroTile, sums: Sums, into: ir.Value) -> None:
        step = tile.lanes * self.size
        for i, vector in enumerate(sums):
            store_vector(
                self.builder, vector, offset_bytes(self.builder, into, i * step), self.size
            )

    def _finish(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Runs the epilogue on a tile's sums."""
        b = self.builder
        whole = is_known(valid) and (is_known(columns.count))
        if self.cheap and whole:
            self._epilogues(tile, sums, first, columns)
            return
        if not self.cheap:
            self._rolled(tile, sums, first, valid, columns)
            return
        full = b.icmp_signed("==", constant(add(b, valid, columns.count)),
                             constant(tile.rows + tile.columns))
        with b.if_else(full) as (all_of_it, edge):
            with all_of_it:
                self._epilogues(tile, sums, first, replace(columns, count=tile.columns))
            with edge:
                self._rolled(tile, sums, first, valid, columns)

    def _epilogues(self, tile: MicroTile, sums: Sums, first: Number, columns: PanelColumns) -> None:
        """Straight from the registers, one vector after another."""
        b = self.builder
        starts = [constant(add(b, columns.first, j * tile.lanes)) for j in range(tile.vectors)]
        with accumulate_in_registers(self.context):
            for i in range(tile.rows):
                at = {self.row: constant(add(b, first, i))}
                for j, start in enumerate(starts):
                    mask = first_lanes(b, add(b, columns.count, -j * tile.lanes), tile.lanes)
                    emit_epilogue(self.context, self.statement.body, at, (self.column, start),
                                          tile.lanes, sums[i * tile.vectors + j], mask)

    def _rolled(
        self, tile: MicroTile, sums: Sums, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """Through memory, in loops over the rows and vectors: a long epilogue is emitted once."""
        slot = self._tile_slot()
        self._keep(tile, sums, slot)
        self._looped(tile, slot, first, valid, columns)

    def _looped(
        self, tile: MicroTile, slot: ir.Value, first: Number, valid: Number, columns: PanelColumns
    ) -> None:
        """The epilogue on sums in memory."""
        b = self.builder
        step = tile.lanes * self.size
        exact = is_known(columns.count) and columns.count == tile.columns
        count = 2 if exact and self._pairs(tile) else 1  # vectors at once
        lanes = tile.lanes * count

        def row(i: ir.Value, _: Sums) -> Sums:
            at = {self.row: constant(add(b, first, i))}
            source = offset_bytes(b, slot, multiply(b, i, tile.vectors * step))

            def vector(j: ir.Value, _: Sums) -> Sums:
                offset = multiply(b, j, lanes)
                start = constant(add(b, columns.first, offset))
                here = offset_bytes(b, source, multiply(b, offset, self.size))
                value = load_vector(b, here, tile.type, lanes)
                mask = None
                if not exact:
                    left = b.sub(constant(columns.count), constant(offset))
                    mask = first_lanes(b, left, lanes)
                emit_epilogue(self.context, self.statement.body, at, (self.column, start), lanes,
                                      value, mask)
                return []

            emit_loop(b, tile.vectors // count, [], vector)
            return []

        emit_loop(b, valid, [], row)

    def _pairs(self, tile: MicroTile) -> bool:
        """Whether a long epilogue goes over two vectors at once: AVX2."""
        return tile.vectors % 2 == 0 and self.context.target.vector_bytes == 32


@dataclass(frozen=True)
class DepthBlock:
    """A block of rows and panels over a stretch of the depth."""

    start: Number
    depth: Number
    ends: tuple[ir.Value, ir.Value] | None
    g0: Number
    p0: Number
    near: Number  # the first of the panels that are kept near
    turns: Number  # in which each tile asks for its part of the next rows, _AT_ONCE at a time


def _prefetch_line(b: ir.IRBuilder, place: ir.Value) -> None:
    """Asks for the line of an address."""
    emit_prefetch(b, place, False, L2_LOCALITY)


def subtract(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x - y, folded where both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    if isinstance(y, int):
        return add(b, x, -y)
    return b.sub(constant(x), y)


def _align_to_line(size: int) -> int:
    return -(-size // 4096) * 4096


def _declare_external(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Value:
    return module.globals.get(name) or ir.Function(module, kind, name)
