"""AMX matrix products: panels of bfloat16 terms, tiles of 32 x 32 sums.

The loops are those of any product. A tile whose panels hold values that the terms cannot represent
(infinities, or only tiny numbers) falls back to float32 arithmetic.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Contract, Type
from ...target.amx import SIDE, TILE_BYTES
from ..llvm.address import add, constant, multiply, offset_bytes, subtract
from ..llvm.types import I64, Number
from .amx_fallback import declare_fallback
from .amx_split import SplitOperand, count_bf16_terms, declare_packer
from .amx_tiles import configured_tiles, count_tile_steps, declare_multiplier, list_term_products
from .blocking import GemmPlan, GemmProblem
from .macro_kernel import MacroKernel
from .micro_kernel import MicroTile
from .operand_packer import OperandPacker
from .pack import emit_min
from .partial_sums import PartialSums
from .product import DepthBlock, PanelColumns, Product
from .tile_epilogue import TileEpilogue
from .tile_kernel import TileKernel
from .tile_loops import TileLoops
from .workspace import Workspace


@dataclass(frozen=True)
class _Terms:
    """Numbers of bfloat16 terms per operand. `checked`: more than one, so fallbacks may occur."""

    parts: tuple[int, int]

    @property
    def checked(self) -> bool:  # with one term, infinities and NaNs need no check
        return max(self.parts) > 1


class _FallbackFlags:
    """Flags of the packed panels whose terms cannot represent their values."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.groups_at = workspace.reserve(8 * int(workspace.block_groups))
        self.panels_at = workspace.reserve(8 * int(workspace.near_panels))

    def of_group(self, i: Number) -> ir.Value:
        """Return the address of the flag of a packed group of rows."""
        return self._locate_flag(self.groups_at, i)

    def of_panel(self, i: Number) -> ir.Value:
        """Return the address of the flag of a packed panel of columns."""
        return self._locate_flag(self.panels_at, i)

    def _locate_flag(self, first: int, i: Number) -> ir.Value:
        b = self.workspace.builder
        return offset_bytes(
            b, offset_bytes(b, self.workspace.memory, first), multiply(b, i, 8)
        )


class AmxPacker(OperandPacker):
    """Packer of panels into bfloat16 terms."""

    def __init__(
        self, product: Product, workspace: Workspace, loops: TileLoops, terms: _Terms,
        flags: _FallbackFlags,
    ) -> None:
        super().__init__(product, workspace, loops)
        self.terms, self.flags = terms, flags

    def pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        b, p = self.builder, self.p
        source = offset_bytes(b, p.a, multiply(b, start, p.a_depth))
        with b.counted_loop(0, subtract(b, g1, g0)) as i:
            first = multiply(b, add(b, i, g0), self.tile.rows)
            valid = emit_min(b, self.tile.rows, subtract(b, p.m, first))
            pointer = offset_bytes(b, source, multiply(b, first, p.a_row))
            operand = SplitOperand(pointer, p.a_row, p.a_depth, p.a_type, valid, depth,
                                   self.terms.parts[0], False, self.terms.checked)
            into = self.workspace.packed_group(i)
            self._split_into(operand, into, self.flags.of_group(i))

    def pack_panels(self, q0: Number, q1: Number, start: Number, depth: Number) -> None:
        self.pack_each(q0, q1, q0, start, depth)

    def _pack_panel(
        self, columns: PanelColumns, local: Number, start: Number, depth: Number
    ) -> None:
        b, p = self.builder, self.p
        pointer = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                               multiply(b, start, p.b_depth))
        operand = SplitOperand(pointer, p.b_column, p.b_depth, p.b_type, columns.count, depth,
                               self.terms.parts[1], True, self.terms.checked)
        self._split_into(operand, self.workspace.packed_panel(local), self.flags.of_panel(local))

    def _split_into(self, operand: SplitOperand, into: ir.Value, flag: ir.Value) -> None:
        """Pack a panel and record whether it needs the fallback."""
        b = self.builder
        along = operand.depth_stride == operand.stored.size
        stride = operand.width_stride if along else operand.depth_stride
        arguments = [operand.pointer, *map(constant, (stride, operand.valid, operand.depth)), into]
        b.store(b.call(declare_packer(b.module, operand), arguments), flag, align=8)


class AmxTileKernel(TileKernel):
    """Tile kernel that multiplies on the matrix unit."""

    def __init__(
        self, product: Product, workspace: Workspace, partial_sums: PartialSums,
        epilogue: TileEpilogue, terms: _Terms, flags: _FallbackFlags,
    ) -> None:
        super().__init__(product, workspace, partial_sums, epilogue)
        self.terms, self.flags = terms, flags

    def costs(self) -> tuple[int, int, int]:
        """Return half cycles per depth step, as for register tiles."""
        parts = self.terms.parts
        return 4 * len(list_term_products(*parts)), 8 * parts[1], 8 * parts[0]

    def configure(self) -> AbstractContextManager[None]:
        """Configure tiles while they are in use."""
        return configured_tiles(self.builder)

    def emit(
        self, group: Number, rows: int, valid: Number, panel: Number, columns: PanelColumns,
        work: DepthBlock,
    ) -> None:
        b = self.builder
        tile = MicroTile(rows, columns.vectors, self.tile.lanes, Type.F32)
        local = subtract(b, group, work.first_group)
        packed_index = subtract(b, panel, work.first_packed)
        first = multiply(b, group, self.tile.rows)
        if work.ends is None:
            self.product.prefetch_epilogue(first, rows, columns.first, tile.columns)
            sums = self.workspace.tile_slot()
            self._multiply(tile, local, packed_index, work.depth, sums, constant(0))
            self.epilogue.run_on_memory(tile, sums, first, valid, columns)
            return
        partial_sums = self.partial_sums.address(local, panel, work)
        resume = b.zext(b.not_(work.ends[0]), I64)
        self._multiply(tile, local, packed_index, work.depth, partial_sums, resume)
        with b.if_then(work.ends[1]):
            self.epilogue.run_on_memory(tile, partial_sums, first, valid, columns)

    def _multiply(
        self, tile: MicroTile, local: Number, packed_index: Number, depth: Number, sums: ir.Value,
        resume: ir.Value,
    ) -> None:
        """Compute a tile's sums, by AMX or by the fallback."""
        b = self.builder
        a, panel = self.workspace.packed_group(local), self.workspace.packed_panel(packed_index)
        steps = constant(count_tile_steps(b, depth))
        arguments = [a, panel, steps, sums, resume]
        unit = declare_multiplier(b.module, -(-tile.rows // SIDE), tile.vectors, self.terms.parts)
        if not self.terms.checked:
            b.call(unit, arguments)
            return
        flags = [b.load(flag(i), typ=I64, align=8)
                 for flag, i in ((self.flags.of_group, local), (self.flags.of_panel, packed_index))]
        has_rare = b.icmp_signed("!=", b.or_(*flags), constant(0))
        with b.if_else(has_rare, likely=False) as (rare, usual):
            with rare:
                shape = [constant(tile.rows), constant(tile.vectors)]
                b.call(declare_fallback(b.module, self.terms.parts), [*arguments, *shape])
            with usual:
                b.call(unit, arguments)


def emit_amx_product(
    context: Any, statement: Contract, p: GemmProblem, plan: GemmPlan
) -> None:
    """Emit a product in bfloat16 terms."""
    terms = _Terms((
        count_bf16_terms(p.a_type, p.precision), count_bf16_terms(p.b_type, p.precision),
    ))
    product = Product(context, statement, p, plan)

    def panel_bytes(depth: Number, width: int, stored: Type) -> Number:
        """Return a panel's bytes: two tiles per term for each depth step."""
        steps = count_tile_steps(product.builder, depth)
        size = 2 * TILE_BYTES * count_bf16_terms(stored, p.precision)
        return multiply(product.builder, steps, size)

    workspace, loops = Workspace(product, panel_bytes), TileLoops(product)
    flags = _FallbackFlags(workspace)
    packer = AmxPacker(product, workspace, loops, terms, flags)
    partial_sums = PartialSums(product, workspace)
    epilogue = TileEpilogue(product, workspace, partial_sums)
    tiles = AmxTileKernel(product, workspace, partial_sums, epilogue, terms, flags)
    MacroKernel(product, workspace, loops, packer, tiles).emit()
