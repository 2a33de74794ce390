"""Packs the operands of a product into panels of a tile's rows or columns."""

from __future__ import annotations

from ..llvm.address import multiply, offset_bytes, subtract
from ..llvm.types import Number
from .blocking import is_known
from .pack import PackedPanel, emit_min, pack_groups, pack_panel
from .product import PanelColumns, Product
from .tile_loops import TileLoops
from .workspace import Workspace


class OperandPacker:
    """Packs rows of a and columns of b, depth step by depth step."""

    def __init__(self, product: Product, workspace: Workspace, loops: TileLoops) -> None:
        self.product, self.workspace, self.loops = product, workspace, loops
        self.builder, self.p, self.plan = product.builder, product.p, product.plan
        self.tile, self.size = product.tile, product.size

    def pack_a(self, g0: Number, g1: Number, start: Number, depth: Number) -> None:
        """Pack the rows of a block, group by group."""
        b, p, rows = self.builder, self.p, self.tile.rows
        first = multiply(b, g0, rows)
        pointer = offset_bytes(
            b, offset_bytes(b, p.a, multiply(b, first, p.a_row)), multiply(b, start, p.a_depth)
        )
        valid = emit_min(b, subtract(b, p.m, first), multiply(b, subtract(b, g1, g0), rows))
        panel = PackedPanel(pointer, p.a_row, p.a_depth, p.a_type, self.product.packed_type, rows,
                            valid, depth, self.tile.lanes, self.plan.pairs)
        workspace = self.workspace
        pack_groups(b, panel, workspace.memory, subtract(b, g1, g0), workspace.group_bytes)

    def pack_panels(self, q0: Number, q1: Number, start: Number, depth: Number) -> None:
        """Pack the panels that stay in L2: those of full width in long runs of memory."""
        b, p, width = self.builder, self.p, self.tile.columns
        first = q0
        if p.b_column == p.b_type.size and is_known(p.n):
            first = emit_min(b, q1, p.n // width)
            count = subtract(b, first, q0)
            pointer = offset_bytes(
                b,
                offset_bytes(b, p.b, multiply(b, multiply(b, q0, width), p.b_column)),
                multiply(b, start, p.b_depth),
            )
            panel = PackedPanel(pointer, p.b_column, p.b_depth, p.b_type, self.product.packed_type,
                                width, multiply(b, count, width), depth, self.tile.lanes,
                                self.plan.pairs)
            workspace = self.workspace
            pack_groups(b, panel, workspace.packed_panel(0), count, workspace.panel_bytes)
        self.pack_each(first, q1, q0, start, depth)

    def pack_each(
        self, first: Number, last: Number, q0: Number, start: Number, depth: Number
    ) -> None:
        """Pack panels one after another; `q0`: the first of those that stay in L2."""
        self.loops.over_panels(first, last, lambda i, columns: self._pack_panel(
            columns, subtract(self.builder, i, q0), start, depth))

    def _pack_panel(
        self, columns: PanelColumns, local: Number, start: Number, depth: Number
    ) -> None:
        """Pack a panel of columns, the `local`-th of those that stay in L2."""
        b, p, tile = self.builder, self.p, self.tile
        pointer = offset_bytes(b, offset_bytes(b, p.b, multiply(b, columns.first, p.b_column)),
                               multiply(b, start, p.b_depth))
        width = columns.vectors * tile.lanes
        panel = PackedPanel(pointer, p.b_column, p.b_depth, p.b_type, self.product.packed_type,
                            width,
                            columns.count, depth, tile.lanes, self.plan.pairs)
        pack_panel(b, panel, self.workspace.packed_panel(local))
