"""The macro-kernel of a matrix product in any transposition: blocking, and loops over tiles.

The loops, from the outside: blocks of rows, a few panels of columns, groups of rows, panels; the
body is a tile. Operands with poor access patterns are packed first. A long depth is cut into
blocks whose partial sums stay in memory. Known extents get exact edge tiles.
"""

from __future__ import annotations

from llvmlite import ir

from ...target.cost_model import MAX_STACK_BYTES, PREFETCHES_PER_TILE_ROUND
from ..llvm.address import add, ceil_divide, constant, multiply, subtract
from ..llvm.types import Number
from ..loops.work_partition import TileRange, split_tiles
from .blocking import is_known
from .operand_packer import OperandPacker
from .pack import emit_min
from .partial_sums import PartialSums
from .product import DepthBlock, Product
from .tile_epilogue import TileEpilogue
from .tile_kernel import TileKernel
from .tile_loops import TileLoops
from .workspace import PanelBytes, Workspace


class MacroKernel:
    """Emits one product by its parts: working memory, loops, packer and tiles."""

    def __init__(
        self, product: Product, workspace: Workspace, loops: TileLoops, packer: OperandPacker,
        tiles: TileKernel,
    ) -> None:
        self.workspace, self.loops, self.packer, self.tiles = workspace, loops, packer, tiles
        self.context, self.builder = product.context, product.builder
        self.plan, self.tile, self.p = product.plan, product.tile, product.p

    def emit(self) -> None:
        """Emit the whole product, or this thread's share of it."""
        b, tile, p = self.builder, self.tile, self.p
        groups, panels = ceil_divide(b, p.m, tile.rows), ceil_divide(b, p.n, tile.columns)
        share = TileRange(0, groups, 0, panels)
        if not self.context.parallel:
            share = split_tiles(
                b, self.context.tid, self.context.threads, groups, panels, self.tiles.costs()
            )
            if self.workspace.bytes > MAX_STACK_BYTES:  # idle threads allocate none
                busy = b.icmp_signed("<", constant(share.first_group), constant(share.last_group))
                with b.if_then(busy):
                    self._emit_share(share)
                return
        self._emit_share(share)

    def _emit_share(self, share: TileRange) -> None:
        with self.tiles.configure():
            self._emit_blocks(share)

    def _emit_blocks(self, share: TileRange) -> None:
        loops, workspace, release = self.loops, self.workspace, self.workspace.take()

        def emit_row_block(g0: Number, g1: Number) -> None:
            if not self.plan.cut:
                self._emit_block(g0, g1, share.first_panel, share.last_panel, 0, self.p.k, None)
                return
            loops.in_blocks(share.first_panel, share.last_panel, workspace.block_panels,
                            lambda p0, p1: self._emit_cut_depth(g0, g1, p0, p1))

        is_one_block = not (self.plan.pack_a or self.plan.cut)
        if is_one_block or (is_known(groups := ceil_divide(self.builder, self.p.m, self.tile.rows))
                     and groups == workspace.block_groups):
            emit_row_block(share.first_group, share.last_group)
        else:
            loops.in_blocks(
                share.first_group, share.last_group, workspace.block_groups, emit_row_block
            )
        release()

    def _emit_cut_depth(self, g0: Number, g1: Number, p0: Number, p1: Number) -> None:
        """Emit a block of rows and panels with a cut depth: partial sums stay in memory."""
        b, plan, p = self.builder, self.plan, self.p
        blocks = ceil_divide(b, p.k, plan.depth)
        if not is_known(blocks):  # an empty depth still needs its epilogue
            blocks = b.select(b.icmp_signed(">", blocks, constant(0)), blocks, constant(1))
        with b.counted_loop(0, blocks) as i:
            start = multiply(b, i, plan.depth)
            depth: Number = plan.depth
            if not (is_known(p.k) and p.k % plan.depth == 0):
                depth = emit_min(b, plan.depth, b.sub(constant(p.k), start))
            last = b.icmp_signed("==", add(b, i, 1), constant(blocks))
            ends = b.icmp_signed("==", i, constant(0)), last
            self._emit_block(g0, g1, p0, p1, start, depth, ends)

    def _emit_block(
        self, g0: Number, g1: Number, p0: Number, p1: Number, start: Number, depth: Number,
        ends: tuple[ir.Value, ir.Value] | None,
    ) -> None:
        """Multiply row groups by panels over one block of the depth.

        `ends`: whether this is the first block and whether it is the last, or None if the depth
        is not cut.
        """
        b = self.builder
        if self.plan.pack_a:
            self.packer.pack_a(g0, g1, start, depth)

        def emit_panels(q0: Number, q1: Number) -> None:
            if self.plan.pack_b:
                self.packer.pack_panels(q0, q1, start, depth)
            turns = ceil_divide(
                b, -(-self.tile.rows // PREFETCHES_PER_TILE_ROUND), subtract(b, q1, q0)
            )
            work = DepthBlock(start, depth, ends, g0, p0, q0, turns)

            def emit_group(g: Number, rows: int, valid: Number) -> None:
                self.loops.over_panels(
                    q0, q1, lambda i, columns: self.tiles.emit(g, rows, valid, i, columns, work)
                )

            self.loops.over_groups(g0, g1, emit_group)

        self.loops.in_blocks(p0, p1, self.workspace.near_panels, emit_panels)


def emit_product(product: Product) -> None:
    """Emit a product by register tiles."""
    workspace = Workspace(product, make_panel_sizer(product))
    loops = TileLoops(product)
    packer = OperandPacker(product, workspace, loops)
    partial_sums = PartialSums(product, workspace)
    epilogue = TileEpilogue(product, workspace, partial_sums)
    tiles = TileKernel(product, workspace, partial_sums, epilogue)
    MacroKernel(product, workspace, loops, packer, tiles).emit()


def make_panel_sizer(product: Product) -> PanelBytes:
    """Return a function of (depth, width) that computes the bytes of a packed panel."""
    return lambda depth, width, _: multiply(
        product.builder, product.count_steps(depth), width * product.size
    )
