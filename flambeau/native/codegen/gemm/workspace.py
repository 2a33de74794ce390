"""A thread's working memory for a product: packed operands and partial sums."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.cache_sizes import PAGE_BYTES
from ...target.cost_model import (
    L1_BYTES, L2Budget, MAX_STACK_BYTES, PACKED_A_BYTES, PARTIAL_SUM_BYTES,
    PARTIAL_SUM_BYTES_WITHOUT_A,
)
from ..llvm.address import ceil_divide, constant, multiply, offset_bytes
from ..llvm.scratch_abi import GIVE, TAKE, USABLE_BYTES
from ..llvm.types import BYTE, I64, POINTER, Number
from .blocking import is_known
from .pack import emit_min
from .product import Product


PanelBytes = Callable[[Number, int, Type], Number]  # of a panel: depth, width, type of elements


class Workspace:
    """The layout of packed a, packed b and partial sums, and the capacity for each.

    `panel_bytes` gives the size of a packed panel. Row groups and column panels are computed in
    blocks of `block_groups` and `block_panels`; `near_panels` panels of b stay in L2 together.
    """

    def __init__(self, product: Product, panel_bytes: PanelBytes) -> None:
        self.product, self.builder = product, product.builder
        self.plan, self.tile, self.p = product.plan, product.tile, product.p
        self.size = product.size
        self._tile_slot: ir.Value | None = None
        self._lay_out(panel_bytes)

    def _lay_out(self, panel_bytes: PanelBytes) -> None:
        """Divide the memory into packed a, packed b and partial sums."""
        b, plan, tile, p = self.builder, self.plan, self.tile, self.p
        self.tile_bytes = tile.rows * tile.columns * self.size
        depth: Number = plan.depth if is_known(p.k) else emit_min(b, p.k, plan.depth)
        self.group_bytes = panel_bytes(depth, tile.rows, p.a_type)
        groups, panels = ceil_divide(b, p.m, tile.rows), ceil_divide(b, p.n, tile.columns)
        self.panel_bytes = panel_bytes(depth, tile.columns, p.b_type)
        budget = L2Budget(self.product.context.target.l2_bytes)
        self.a_near = is_known(p.m) and is_known(p.k) and p.m * p.k * self.size <= budget.a
        exceeds_l1 = not is_known(self.panel_bytes) \
            or (self.panel_bytes > L1_BYTES and not self.a_near)
        room = budget.panels if exceeds_l1 else budget.row_panels
        capacity = self._count_fitting(room, self.panel_bytes)
        self.near_panels = emit_min(b, panels, capacity)
        self._choose_blocks(groups, panels)
        packed = multiply(b, self.block_groups, self.group_bytes)
        a = (packed if is_known(packed) else PACKED_A_BYTES) if plan.pack_a else 0
        packed_b_bytes = multiply(b, self.near_panels, self.panel_bytes)
        if not is_known(packed_b_bytes):  # there is always one panel
            packed_b_bytes = max(room, plan.depth * tile.columns * self.size)
        panels_bytes = packed_b_bytes if plan.pack_b else 0
        self.b_at = _align_to_page(a)
        self.sums_at = self.b_at + _align_to_page(panels_bytes)
        self.bytes = self.sums_at + (self._reserve_partial_sums() if plan.cut else 0)
        assert self.bytes <= USABLE_BYTES, self.bytes

    def _choose_blocks(self, groups: Number, panels: Number) -> None:
        """Choose how many row groups and column panels are computed together.

        While the depth is cut, their partial sums stay in memory: of the packed groups and some
        panels, or of the packed panels and some groups.
        """
        b, plan, p = self.builder, self.plan, self.p
        self.block_groups, self.block_panels = groups, panels
        if plan.pack_a:
            capacity = self._count_fitting(PACKED_A_BYTES, self.group_bytes)
            self.block_groups = emit_min(b, groups, capacity)
        if not plan.cut:
            return
        near, others = (self.block_groups, panels) if plan.pack_a else (self.near_panels, groups)
        capacity = self._count_fitting(
            self._reserve_partial_sums(), multiply(b, near, self.tile_bytes)
        )
        if not is_known(p.k):  # sums are not kept when the depth turns out short
            short = b.icmp_signed("<=", p.k, constant(plan.depth))
            capacity = b.select(short, constant(others), constant(capacity))
        fitting = emit_min(b, others, capacity)
        self.block_groups, self.block_panels = (near, fitting) if plan.pack_a else (fitting, near)

    def _reserve_partial_sums(self) -> int:
        """Bytes for partial sums."""
        return PARTIAL_SUM_BYTES if self.plan.pack_a else PARTIAL_SUM_BYTES_WITHOUT_A

    def _count_fitting(self, room: int, size: Number) -> Number:
        """Return how many items of a size fit, at least one."""
        if isinstance(size, int):
            return max(1, room // max(size, 1))
        b = self.builder
        divisor = b.select(b.icmp_signed(">", size, constant(0)), size, constant(1))
        fit = b.udiv(constant(room), divisor)
        return b.select(b.icmp_signed(">", fit, constant(0)), fit, constant(1))

    def reserve(self, size: int) -> int:
        """Reserve `size` more bytes at the end; return their offset."""
        start = self.bytes
        self.bytes += size
        return start

    def take(self) -> Callable[[], None]:
        """Emit code that gets the memory; return a function that emits its release."""
        b = self.builder
        if not self.bytes:
            return lambda: None
        if self.bytes <= MAX_STACK_BYTES:
            self.memory = self.allocate_on_stack(self.bytes)
            return lambda: None
        take, give = (_declare_external(b.module, name, kind) for name, kind in (
            (TAKE, ir.FunctionType(POINTER, [I64])),
            (GIVE, ir.FunctionType(ir.VoidType(), [POINTER])),
        ))
        self.memory = b.call(take, [self.product.context.tid])
        return lambda: b.call(give, [self.memory])

    def tile_slot(self) -> ir.Value:
        """Return stack memory for one tile's sums."""
        if self._tile_slot is None:
            self._tile_slot = self.allocate_on_stack(self.tile_bytes)
        return self._tile_slot

    def allocate_on_stack(self, size: int) -> ir.Value:
        """Return stack memory aligned to a cache line."""
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(ir.ArrayType(BYTE, size))
            slot.align = 64
            slot.type = POINTER
            return slot

    # --------------------------------------------------------------------------- addresses

    def packed_group(self, local: Number) -> ir.Value:
        """Return the address of a packed group of rows, the `local`-th of its block."""
        b = self.builder
        return offset_bytes(b, self.memory, multiply(b, local, self.group_bytes))

    def packed_panel(self, local: Number) -> ir.Value:
        """Return the address of a packed panel, the `local`-th of those that stay in L2."""
        b = self.builder
        return offset_bytes(
            b, offset_bytes(b, self.memory, self.b_at), multiply(b, local, self.panel_bytes)
        )


def _align_to_page(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _declare_external(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Value:
    return module.globals.get(name) or ir.Function(module, kind, name)
