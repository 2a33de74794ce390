"""Blocking of a matrix product: register tile, packing, and cuts of the depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import (
    Apply, Axis, Contract, Index, Load, Scalar, Store, Type, iterate_subexpressions,
)
from ...target.cost_model import (
    ASSUMED_COLUMN_VECTORS, ASSUMED_GEMM_DEPTH, BYTE_PRODUCT_BLOCK_QUADS, BYTE_PRODUCT_TILES,
    DYNAMIC_GEMM_TILES, EVEN_PACKING_ROWS, FULL_TILE_RELATIVE_COST, GEMM_BLOCK_DEPTH,
    GEMM_TILES, MAX_GEMM_CACHED_DEPTH, MAX_GEMM_UNCUT_DEPTH, MAX_GEMM_UNCUT_DYNAMIC_DEPTH,
    MAX_SPLIT_RELATIVE_COST, MAX_TILE_ROWS, MAX_TILE_VECTORS, MAX_UNPACKED_A_DEPTH,
    MAX_UNPACKED_A_SPAN_BYTES, MAX_UNROLLED_EPILOGUE_OPERATIONS, MIN_DEPTH_TO_UNROLL,
    MIN_MULTIPLY_ADDS_TO_SPLIT, MIN_ROWS_TO_PACK_CACHED_B, MIN_ROWS_TO_PACK_FAR_B,
    NEAR_GEMM_TILES, SPARE_TILE_REGISTERS, UNEVEN_PACKING_RELATIVE_COST, L2Budget, gemm_cycles,
    largest_share_cycles,
)
from ..llvm.address import constant, multiply
from ..llvm.byte_products import (
    dot_bytes, dot_bytes_by_pairs, dot_low_bytes_by_pairs, dot_quads,
)
from ..llvm.types import Number, sum_type
from .amx_split import count_bf16_terms as count_parts
from .bf16_pairs import dot_accumulate
from .micro_kernel import MicroTile, Multiply

_COSTLY_OPERATIONS = {Scalar.POW, Scalar.ATAN2, Scalar.DIV, Scalar.REM} | {
    s for s in Scalar if Scalar.EXP.value <= s.value <= Scalar.LGAMMA.value
}


@dataclass(frozen=True)
class GemmProblem:
    """A product's extents, the addresses of its operands and their strides in bytes.

    `row` is the index of its rows (a fresh one for vector times matrix). `precision` and `near` are
    those of the Contract.
    """

    row: Index
    m: Number
    n: Number
    k: Number
    a: ir.Value
    b: ir.Value
    a_row: Number
    a_depth: Number
    b_depth: Number
    b_column: Number
    a_type: Type
    b_type: Type
    type: Type
    precision: int
    near: bool
    product: Scalar = Scalar.MUL


@dataclass(frozen=True)
class GemmPlan:
    """How to compute a product: register tile, what to pack, how to cut the depth.

    `pairs`: pack bfloat16 numbers in pairs, for dot-product instructions. `multiply`: adds
    products to sums, if not by a fused multiply-add.
    """

    tile: MicroTile
    pack_a: bool
    pack_b: bool
    depth: int  # of a block, at most
    cut: bool  # whether there may be more than one block of the depth
    unroll: int
    pairs: bool = False
    multiply: Multiply | None = None


def is_known(value: Number) -> bool:
    """Whether a number is a compile-time constant."""
    return isinstance(value, int)


def match_gemm(context: Any, statement: Contract) -> GemmProblem | None:
    """Return the product that a Contract computes, or None if it is not a plain one."""
    if len(statement.rows) > 1 or len(statement.depth) != 1:
        return None
    row = statement.rows[0] if statement.rows else Axis(Index("row"), 1)
    column, depth = statement.column, statement.depth[0]
    a, b = statement.a, statement.b
    if any(x.mask is not None or x.indirect or x.type is Type.BOOL for x in (a, b)):
        return None
    if a.at.stride(column.index) != 0 or b.at.stride(row.index) != 0:
        return None
    type = statement.sum.type
    if any(sum_type(x.type) is not type and x.type.size > type.size for x in (a, b)):
        return None
    zero = constant(0)
    start = {row.index: zero, column.index: zero, depth.index: zero}

    def number(extent: Any) -> Number:
        return extent if isinstance(extent, int) else context.extent(extent)

    def stride(load: Load, axis: Any) -> Number:
        return multiply(context.builder, number(load.at.stride(axis.index)), load.type.size)

    return GemmProblem(
        row.index, number(row.extent), number(column.extent), number(depth.extent),
        context.address(a.buffer, a.at, start), context.address(b.buffer, b.at, start),
        stride(a, row), stride(a, depth), stride(b, depth), stride(b, column),
        a.type, b.type, type, statement.precision, statement.near,
        statement.product,
    )


# ---------------------------------------------------------------------------------- planning


def choose_tile(
    m: Number, n: Number, k: Number, lanes: int, registers: int, shares: int = 1,
    packed: bool = True, beside: bool = False,
) -> tuple[int, int]:
    """Return rows and vectors of the fastest register tile for the extents.

    `shares`: number of threads; `packed`: b is packed; `beside`: a is packed from adjacent rows.
    """
    default = GEMM_TILES[registers]
    if not is_known(m):
        return default
    vectors = -(-n // lanes) if is_known(n) else ASSUMED_COLUMN_VECTORS
    depth = k if is_known(k) else ASSUMED_GEMM_DEPTH
    if m * vectors * lanes * depth <= MIN_MULTIPLY_ADDS_TO_SPLIT:
        shares = 1

    def cost(tile: tuple[int, int], shares: int) -> float:
        if shares > 1:
            cycles = largest_share_cycles(
                m, vectors, tile, depth, lanes, packed, registers, shares
            )
        else:
            cycles = gemm_cycles(m, vectors, tile, depth, packed, registers)
        if _count_registers(*tile) > registers - SPARE_TILE_REGISTERS:
            cycles *= FULL_TILE_RELATIVE_COST
        is_uneven = beside and tile[0] % EVEN_PACKING_ROWS
        return cycles * (UNEVEN_PACKING_RELATIVE_COST if is_uneven else 1)

    tiles = [(r, v) for v in range(1, min(MAX_TILE_VECTORS, max(vectors, 1)) + 1)
             for r in range(1, min(MAX_TILE_ROWS, max(m, 1)) + 1)
             if _count_registers(r, v) <= registers]
    best = min(tiles, key=lambda tile: cost(tile, min(shares, 2)), default=default)
    if shares <= 2:
        return best
    # Smaller tiles read more, and pay only where many threads would be idle.
    other = min(tiles, key=lambda tile: cost(tile, shares), default=default)
    return other if cost(other, shares) < MAX_SPLIT_RELATIVE_COST * cost(best, shares) else best


def _count_registers(rows: int, vectors: int) -> int:
    """Return how many registers a tile takes: its sums, a row of b, and an element of a."""
    return rows * vectors + vectors + 1


def plan_gemm(p: GemmProblem, target: Any, shares: int) -> GemmPlan:
    """Choose tile, packing and blocks from the known extents, for `shares` threads."""
    if p.product is not Scalar.MUL:
        return plan_byte_products(p, target)
    registers, half = target.vector_registers, p.a_type in (Type.F16, Type.BF16)
    pairs = _uses_bf16_pairs(p, target)
    pack_a, pack_b = _choose_packing(p, L2Budget(target.l2_bytes), half, pairs)
    beside = p.a_row == p.a_type.size
    if p.near and beside and not is_known(p.m):
        rows, vectors = NEAR_GEMM_TILES[registers]
    else:
        rows, vectors = choose_tile(p.m, p.n, p.k, target.lanes(p.type), registers, shares,
                                    pack_b, pack_a and beside)
    if p.k == 0:  # nothing is read
        pack_a = pack_b = pairs = False
    depth, cut = _choose_depth(p, pairs)
    unroll = choose_unroll(rows, vectors, registers, depth, half and not pairs)
    unroll *= 2 if registers == 32 and unroll == 2 and not (is_known(p.k) or p.near) else 1
    multiply = dot_accumulate if pairs else None
    tile = MicroTile(rows, vectors, target.lanes(p.type), p.type)
    return GemmPlan(tile, pack_a, pack_b, depth, cut, unroll, pairs, multiply)


def _choose_packing(
    p: GemmProblem, budget: L2Budget, half: bool, pairs: bool
) -> tuple[bool, bool]:
    """Return whether to pack a, and whether to pack b."""
    lie_in_pairs = pairs and p.a_type is Type.BF16 and p.a_depth == p.a_type.size
    pack_a = not lie_in_pairs and (half or pairs or _should_pack_a(p, budget))
    return pack_a, pairs or _should_pack_b(p, budget)


def _choose_depth(p: GemmProblem, pairs: bool) -> tuple[int, bool]:
    """Return the depth of a block, at most, and whether there may be more than one block."""
    if not is_known(p.k):
        return (MAX_GEMM_CACHED_DEPTH, False) if p.near else (MAX_GEMM_UNCUT_DYNAMIC_DEPTH, True)
    if p.k <= MAX_GEMM_UNCUT_DEPTH:
        return p.k, False
    depth = _choose_block_depth(p.k)
    return depth + (depth % 2 if pairs else 0), True


def plan_byte_products(p: GemmProblem, target: Any) -> GemmPlan:
    """Plan a product of byte quads: both operands are already packed, b in panels of columns."""
    rows, vectors = BYTE_PRODUCT_TILES[target.vector_registers]
    if is_known(p.m):
        rows = min(rows, max(p.m, 1))
    tile = MicroTile(rows, vectors, target.lanes(p.type), p.type)
    pack_a, pack_b = p.a_depth != p.a_type.size, p.b_column != p.b_type.size
    return GemmPlan(tile, pack_a, pack_b, BYTE_PRODUCT_BLOCK_QUADS, True, 2,
                    multiply=_choose_byte_product(p.product, target))


def _choose_byte_product(product: Scalar, target: Any) -> Multiply:
    """Return the target's instructions for products of bytes."""
    if target.byte_quads:
        return dot_quads
    if not target.triple.startswith("x86_64"):
        return dot_bytes
    return dot_low_bytes_by_pairs if product is Scalar.DOT_LOW_BYTES else dot_bytes_by_pairs


def _uses_bf16_pairs(p: GemmProblem, target: Any) -> bool:
    """Whether to multiply bfloat16 pairs: if one bfloat16 term per number is exact or precise
    enough, and each operand is contiguous along one axis.
    """
    parts = [count_parts(operand_type, p.precision) for operand_type in (p.a_type, p.b_type)]
    if not target.pairs or p.type is not Type.F32 or parts != [1, 1]:
        return False
    return p.a_type.size in (p.a_row, p.a_depth) and p.b_type.size in (p.b_depth, p.b_column)


def choose_unroll(rows: int, vectors: int, registers: int, depth: int, half: bool) -> int:
    """Return depth steps per iteration. Single steps of narrow tiles would spend half their time
    on loop overhead and prefetches.
    """
    if half:
        return 1
    if registers == 16:
        return 4 if depth > MIN_DEPTH_TO_UNROLL else 2
    return 2 if _count_registers(rows, vectors) <= registers - 3 else 1


def _should_pack_a(p: GemmProblem, budget: L2Budget) -> bool:
    """Whether to pack a: depth steps are far apart, or at an unknown stride."""
    if p.a_depth == p.a_type.size or (p.near and p.a_row == p.a_type.size):
        return False
    if not (is_known(p.a_depth) and is_known(p.k)):
        return True
    return (
        p.k > MAX_UNPACKED_A_DEPTH
        or p.k * p.a_depth > MAX_UNPACKED_A_SPAN_BYTES
        or 2 * p.k > budget.lines(p.a_depth)
    )


def _should_pack_b(p: GemmProblem, budget: L2Budget) -> bool:
    """Whether to pack b: not contiguous, too large for L2, or read by many rows of a."""
    if p.b_column != p.b_type.size:
        return True
    if p.near:
        return False
    exceeds_l2 = not (is_known(p.k) and is_known(p.b_depth)) or p.k * p.b_depth > budget.b
    return not is_known(p.m) or p.m >= (
        MIN_ROWS_TO_PACK_FAR_B if exceeds_l2 else MIN_ROWS_TO_PACK_CACHED_B
    )


def _choose_block_depth(depth: int) -> int:
    """The length of the blocks of a long depth: all equal if a divisor is close."""
    min_blocks = -(-depth // GEMM_BLOCK_DEPTH)
    for blocks in range(min_blocks, 2 * min_blocks):
        if depth % blocks == 0:
            return depth // blocks
    return -(-depth // min_blocks)


def is_cheap_epilogue(body: list) -> bool:
    """Whether an epilogue is short enough to be emitted for every vector of a tile."""
    if any(
        not isinstance(store, Store) or store.indirect or store.mask is not None for store in body
    ):
        return False
    steps = [
        expression
        for expression in iterate_subexpressions(store.value for store in body)
        if isinstance(expression, Apply)
    ]
    costly = any(step.operation in _COSTLY_OPERATIONS for step in steps)
    return not costly and len(steps) <= MAX_UNROLLED_EPILOGUE_OPERATIONS and len(body) <= 2


def plan_dynamic(context: Any, p: GemmProblem, depth: int = MAX_GEMM_UNCUT_DEPTH) -> GemmPlan:
    """A plan for run-time extents: it packs everything, and cuts a depth above about `depth`."""
    registers = context.target.vector_registers
    rows, vectors = DYNAMIC_GEMM_TILES[registers]
    tile = MicroTile(rows, vectors, context.target.lanes(p.type), p.type)
    full_depth = depth // tile.columns * tile.columns
    unroll = choose_unroll(rows, vectors, registers, full_depth, False)
    return GemmPlan(tile, True, True, full_depth, True, unroll)
