"""AMX matrix products: panels of bfloat16 terms, tiles of 32 x 32 sums.

The loops are those of any product. A tile whose panels hold values that the terms cannot represent
(infinities, or only tiny numbers) falls back to float32 arithmetic.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Contract, Type
from ..loops.epilogue_prefetch import prefetch_tile
from .blocking import GemmPlan, GemmProblem
from .amx_tiles import (
    SIDE, TILE_BYTES, configured_tiles, count_tile_steps, declare_multiplier, term_products,
)
from .pack import min_of
from .amx_split import SplitOperand, count_bf16_terms, declare_fallback, declare_packer
from .macro_kernel import DepthBlock, MacroKernel, PanelColumns, subtract
from ..loops.work_partition import TileRange
from .micro_kernel import MicroTile, Sums
from ..llvm.loop import emit_loop
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.types import I64, Number


class AmxMacroKernel(MacroKernel):
    """Emits one product in bfloat16 terms."""

    def __init__(self, context: Any, statement: Contract, p: GemmProblem, plan: GemmPlan) -> None:
        self.parts = (
            count_bf16_terms(p.a_type, p.precision),
            count_bf16_terms(p.b_type, p.precision),
        )
        self.checked = max(self.parts) > 1  # what is not finite is so in a single part
        super().__init__(context, statement, p, plan)
        self.a_flags_at = self.bytes
        self.b_flags_at = self.a_flags_at + 8 * int(self.block_groups)
        self.bytes = self.b_flags_at + 8 * int(self.near_panels)

    def bytes_of_panel(self, depth: Number, width: int, stored: Type) -> Number:
        """Of a panel: for each step of the depth two tiles of each part."""
        parts = count_bf16_terms(stored, self.p.precision)
        return multiply(self.builder, count_tile_steps(self.builder, depth), 2 * TILE_BYTES * parts)

    def costs(self) -> tuple[int, int, int]:
        """In half cycles a step of the depth, as for register tiles."""
        return 4 * len(term_products(*self.parts)), 8 * self.parts[1], 8 * self.parts[0]

    def _share(self, share: TileRange) -> None:
        with configured_tiles(self.builder):
            super()._share(share)

    # -------------------------------------------------------------------- packing

    def _pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        b, p = self.builder, self.p
        source = offset_bytes(b, p.a, multiply(b, start, p.a_depth))

        def pack_group(i: ir.Value, _: Sums) -> Sums:
            first = multiply(b, add(b, i, g0), self.tile.rows)
            valid = min_of(b, self.tile.rows, subtract(b, p.m, first))
            pointer = offset_bytes(b, source, multiply(b, first, p.a_row))
            operand = SplitOperand(pointer, p.a_row, p.a_depth, p.a_type, valid, depth,
                              self.parts[0], False, self.checked)
            into = offset_bytes(b, self.memory, multiply(b, i, self.group_bytes))
            self._packed_parts(operand, into, self._flag(self.a_flags_at, i))
            return []

        emit_loop(b, subtract(b, g1, g0), [], pack_group)

    def _pack_panels(self, q0: Number, q1: Number, start: Number, depth: Number) -> None:
        self._pack_each(q0, q1, q0, start, depth)

    def _pack_b(self, columns: PanelColumns, local: Number, start: Number, depth: Number) -> None:
        b, p = self.builder, self.p
        at = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                   multiply(b, start, p.b_depth))
        operand = SplitOperand(at, p.b_column, p.b_depth, p.b_type, columns.count, depth,
                          self.parts[1], True, self.checked)
        self._packed_parts(operand, self._packed(local), self._flag(self.b_flags_at, local))

    def _packed_parts(self, operand: SplitOperand, into: ir.Value, flag: ir.Value) -> None:
        """Packs a panel and records whether it needs the fallback."""
        b = self.builder
        along = operand.depth_stride == operand.stored.size
        stride = operand.width_stride if along else operand.depth_stride
        arguments = [operand.pointer, *map(constant, (stride, operand.valid, operand.depth)), into]
        b.store(b.call(declare_packer(b.module, operand), arguments), flag, align=8)

    def _flag(self, first: int, i: Number) -> ir.Value:
        b = self.builder
        return offset_bytes(b, offset_bytes(b, self.memory, first), multiply(b, i, 8))

    # ---------------------------------------------------------------------- tiles

    def _tile(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        b = self.builder
        tile = MicroTile(rows, columns.vectors, self.tile.lanes, Type.F32)
        local, near = subtract(b, group, work.g0), subtract(b, panel, work.near)
        first = multiply(b, group, self.tile.rows)
        if work.ends is None:
            prefetch_tile(self.context, self.streams, (self.row, first, rows),
                  (self.column, columns.first, tile.columns))
            sums = self._tile_slot()
            self._multiply(tile, local, near, work.depth, sums, constant(0))
            self._looped(tile, sums, first, valid, columns)
            return
        index = add(b, multiply(b, local, self.block_panels), subtract(b, panel, work.p0))
        partial_sums = offset_bytes(
            b, offset_bytes(b, self.memory, self.sums_at), multiply(b, index, self.tile_bytes)
        )
        resume = b.zext(b.not_(work.ends[0]), I64)
        self._multiply(tile, local, near, work.depth, partial_sums, resume)
        with b.if_then(work.ends[1]):
            self._looped(tile, partial_sums, first, valid, columns)

    def _multiply(
        self, tile: MicroTile, local: Number, near: Number, depth: Number, sums: ir.Value,
        resume: ir.Value,
    ) -> None:
        """The sums of a tile, by AMX or by the fallback."""
        b = self.builder
        a, panel = (
            offset_bytes(b, self.memory, multiply(b, local, self.group_bytes)),
            self._packed(near),
        )
        steps = constant(count_tile_steps(b, depth))
        arguments = [a, panel, steps, sums, resume]
        unit = declare_multiplier(b.module, -(-tile.rows // SIDE), tile.vectors, self.parts)
        if not self.checked:
            b.call(unit, arguments)
            return
        flags = [b.load(self._flag(at, i), typ=I64, align=8)
                 for at, i in ((self.a_flags_at, local), (self.b_flags_at, near))]
        odd = b.icmp_signed("!=", b.or_(*flags), constant(0))
        with b.if_else(odd, likely=False) as (rare, usual):
            with rare:
                shape = [constant(tile.rows), constant(tile.vectors)]
                b.call(declare_fallback(b.module, self.parts), [*arguments, *shape])
            with usual:
                b.call(unit, arguments)
