"""Blocking of a matrix product: register tile, packing, and cuts of the depth."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Apply, Axis, Contract, Index, Load, Scalar, Store, Type, subexpressions
from .amx_split import count_bf16_terms as count_parts
from .micro_kernel import MicroTile
from ..llvm.address import constant, multiply
from ..llvm.types import Number, sum_type

MAX_UNCUT_DEPTH = 2048  # a depth up to this is not cut: a panel of b fits the second-level cache
MAX_UNCUT_DYNAMIC_DEPTH = 1024  # nor up to this where it is known only at the call
MAX_CACHED_DEPTH = 256  # of operands that are said to be near, at most
BLOCK_DEPTH = 1024  # where a known depth is cut, about this much of it at a time
# for packed rows of a: many, since panels of b come from afar for each block
PACKED_A_BYTES = 4608 << 10
L1_BYTES = 32 << 10  # a panel up to this stays in the nearest cache while all rows pass
# steps of a on lines of their own beyond this do not stay in the nearest cache
_MAX_UNPACKED_A_DEPTH = 384
_MAX_UNPACKED_A_SPAN_BYTES = 1536 << 10  # steps of a over this much memory are too many pages
_MIN_DEPTH_TO_UNROLL = 64  # of the depth, for which long rounds are only more code
_L2_WAYS = 16  # of a second-level cache
# of a, from which on packing b pays where it is far, and near
_MIN_ROWS_TO_PACK_FAR_B, _MIN_ROWS_TO_PACK_CACHED_B = 18, 128
_ASSUMED_COLUMN_VECTORS = 60  # vectors of columns whose number is not known
MIN_MULTIPLY_ADDS_TO_SPLIT = 200_000  # multiply-adds that are hardly worth sharing
# of the time, which another tile for many threads must take less than
MAX_RELATIVE_COST_TO_SPLIT = 0.9
PARTIAL_SUM_BYTES = 2 << 20  # for partial sums while the depth is cut
PARTIAL_SUM_BYTES_WITHOUT_A = 3 << 20  # where no rows of a are packed beside them
# operations in an epilogue that is worth repeating for each vector of a tile
_MAX_CHEAP_OPERATIONS = 6
_COSTLY_OPERATIONS = {Scalar.POW, Scalar.ATAN2, Scalar.DIV, Scalar.REM} | {
    s for s in Scalar if Scalar.EXP.value <= s.value <= Scalar.ERFC.value
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


@dataclass(frozen=True)
class L2Budget:
    """Shares of an L2 cache of so many bytes, tuned with 2 MB."""

    bytes: int

    @property
    def panels(self) -> int:
        """For packed panels of b that every row tile of a reads."""
        return self.bytes * 35 // 64

    @property
    def row_panels(self) -> int:
        """For packed panels that stay in L2 anyway, so that rows of c are written in long runs."""
        return self.bytes * 3 // 16

    @property
    def a(self) -> int:
        """Rows of a up to this size stay in L2 unpacked."""
        return self.bytes // 4

    @property
    def b(self) -> int:
        """A matrix b up to this size stays in L2 unpacked."""
        return self.bytes * 3 // 8

    def lines(self, stride: int) -> int:
        """How many cache lines fit that are `stride` bytes apart."""
        return cache_lines_reached(stride, self.bytes // _L2_WAYS, _L2_WAYS)


@dataclass(frozen=True)
class GemmPlan:
    """How to compute a product: register tile, what to pack, how to cut the depth.

    `pairs`: pack bfloat16 numbers in pairs, for dot-product instructions.
    """

    tile: MicroTile
    pack_a: bool
    pack_b: bool
    depth: int  # of a block, at most
    cut: bool  # whether there may be more than one block of the depth
    unroll: int
    pairs: bool = False


def is_known(value: Number) -> bool:
    """Whether a number is a compile-time constant."""
    return isinstance(value, int)


def match_gemm(context: Any, statement: Contract) -> GemmProblem | None:
    """The product that a Contract computes, or None if it is not a plain one."""
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
    )  # fmt: skip


# ---------------------------------------------------------------------------------- planning


# What a step costs beside what the ports would need, by the vectors of a tile: measured with
# 32 registers (AVX-512) and packed panels, with rows of b that lie apart, with 16 registers (AVX2).
_STEP_OVERHEAD = {1: 1.15, 2: 1.05, 3: 1.0, 4: 1.01, 5: 1.07, 6: 1.14}
_STEP_OVERHEAD_STRIDED_B = {**_STEP_OVERHEAD, 4: 1.06}
_STEP_OVERHEAD_16_REGISTERS = {1: 1.4, 2: 1.0, 3: 1.02, 4: 1.25, 5: 1.3, 6: 1.4}


def tile_cycles(rows: int, vectors: int, packed: bool, registers: int) -> float:
    """Cycles of one depth step: two FMA ports, two load ports, latency hidden."""
    if not rows or not vectors:
        return 0.0
    overhead = _STEP_OVERHEAD if packed else _STEP_OVERHEAD_STRIDED_B
    if registers == 16:
        overhead = _STEP_OVERHEAD_16_REGISTERS
    return max(rows * vectors, rows + vectors, 4.0) / 2 * overhead[vectors]


def split_costs(rows: int, vectors: int, lanes: int) -> tuple[int, int, int]:
    """Half cycles per depth step: of a tile, of a column panel and of a row group.

    Two elements a cycle come from memory that other kernels wrote, and are packed.
    """
    return rows * vectors, vectors * lanes, rows


def _gemm_cycles(
    m: int, vectors: int, tile: tuple[int, int], depth: int, packed: bool, registers: int
) -> float:
    """Cycles of `m` rows and `vectors` column vectors, by tiles."""
    groups, tail = divmod(m, tile[0])
    panels, edge = divmod(vectors, tile[1])
    cost = 0.0
    for count, rows in ((groups, tile[0]), (1 if tail else 0, tail)):
        for many, wide in ((panels, tile[1]), (1 if edge else 0, edge)):
            near = 0.1 * rows  # to bring rows of a into the nearest cache
            step = tile_cycles(rows, wide, packed, registers) + near
            # Each step has a price of its own.
            cost += count * many * (depth * (step + 0.8) + 12 + rows * wide)
    return cost * (1 + 0.01 * (bool(tail) + bool(edge)))


def _largest_share_cycles(
    m: int, vectors: int, tile: tuple[int, int], depth: int, lanes: int, packed: bool,
    registers: int, shares: int,
) -> float:  # fmt: skip
    """Cycles of the largest thread share on the best grid of row groups by column panels."""
    def part(across: int) -> tuple[int, int]:
        rows = min(m, -(-m // (shares // across * tile[0])) * tile[0])
        return rows, min(vectors, -(-vectors // (across * tile[1])) * tile[1])

    return min(_gemm_cycles(rows, columns, tile, depth, packed, registers)
               + depth / 2 * (rows + columns * lanes)
               for rows, columns in map(part, range(1, shares + 1)))  # fmt: skip


def choose_tile(
    m: Number, n: Number, k: Number, lanes: int, registers: int, shares: int = 1,
    packed: bool = True, beside: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Rows and vectors of the fastest register tile for the extents.

    `shares`: number of threads; `packed`: b is packed; `beside`: a is packed from rows side by
    side.
    """
    wide = (6, 4) if registers == 32 else (4, 3)
    if not is_known(m):
        return wide
    vectors = -(-n // lanes) if is_known(n) else _ASSUMED_COLUMN_VECTORS
    depth = k if is_known(k) else 256
    if m * vectors * lanes * depth <= MIN_MULTIPLY_ADDS_TO_SPLIT:
        shares = 1

    def cost(tile: tuple[int, int], shares: int) -> float:
        if shares > 1:
            cycles = _largest_share_cycles(
                m, vectors, tile, depth, lanes, packed, registers, shares
            )
        else:
            cycles = _gemm_cycles(m, vectors, tile, depth, packed, registers)
        r, v = tile
        cycles *= 1.02 if r * v + v + 1 > registers - 2 else 1  # no room to schedule loads ahead
        return cycles * (1.06 if beside and r % 8 else 1)  # such rows take several stores a step

    tiles = [(r, v) for v in range(1, min(6, max(vectors, 1)) + 1)
             for r in range(1, min(30, max(m, 1)) + 1) if r * v + v + 1 <= registers]  # fmt: skip
    best = min(tiles, key=lambda tile: cost(tile, min(shares, 2)), default=wide)
    if shares > 2:  # smaller tiles read more: so they are worth it where many would be idle
        other = min(tiles, key=lambda tile: cost(tile, shares), default=wide)
        best = (
            other if cost(other, shares) < MAX_RELATIVE_COST_TO_SPLIT * cost(best, shares) else best
        )
    return best


def plan_gemm(p: GemmProblem, target: Any, shares: int) -> GemmPlan:
    """Chooses tile, packing and blocks from the known extents, for `shares` threads."""
    lanes, registers = target.lanes(p.type), target.vector_registers
    half = p.a_type in (Type.F16, Type.BF16)
    near = L2Budget(target.near)
    pairs = _uses_bf16_pairs(p, target)
    lie_in_pairs = pairs and p.a_type is Type.BF16 and p.a_depth == p.a_type.size
    pack_a = not lie_in_pairs and (half or pairs or _packs_a(p, near))
    pack_b = pairs or _packs_b(p, near)
    beside = p.a_row == p.a_type.size
    rows, vectors = choose_tile(
        p.m, p.n, p.k, lanes, registers, shares, pack_b, pack_a and beside
    )
    if registers == 16 and p.near and beside and not is_known(p.m):
        rows, vectors = 6, 2  # one pointer serves all rows
    tile = MicroTile(rows, vectors, lanes, p.type)
    if p.k == 0:  # nothing is read
        pack_a = pack_b = pairs = False
    cut = not p.near if not is_known(p.k) else p.k > MAX_UNCUT_DEPTH
    depth = p.k if is_known(p.k) else MAX_CACHED_DEPTH if p.near else MAX_UNCUT_DYNAMIC_DEPTH
    if cut and is_known(p.k):
        depth = _block_depth(p.k)
        depth += depth % 2 if pairs else 0
    unroll = choose_unroll(rows, vectors, registers, depth, half and not pairs)
    unroll *= 2 if registers == 32 and unroll == 2 and not (is_known(p.k) or p.near) else 1
    return GemmPlan(tile, pack_a, pack_b, depth, cut, unroll, pairs)


def _uses_bf16_pairs(p: GemmProblem, target: Any) -> bool:
    """Whether to multiply bfloat16 pairs: if one bfloat16 term per number is exact or precise
    enough, and each operand is contiguous along one axis.
    """
    parts = [count_parts(operand_type, p.precision) for operand_type in (p.a_type, p.b_type)]
    if not target.pairs or p.type is not Type.F32 or parts != [1, 1]:
        return False
    return p.a_type.size in (p.a_row, p.a_depth) and p.b_type.size in (p.b_depth, p.b_column)


def choose_unroll(rows: int, vectors: int, registers: int, depth: int, half: bool) -> int:
    """Depth steps per iteration. Single steps of narrow tiles would be half loop overhead and
    prefetch.
    """
    if half:
        return 1
    if registers == 16:
        return 4 if depth > _MIN_DEPTH_TO_UNROLL else 2
    return 2 if rows * vectors + vectors + 1 <= registers - 3 else 1


def _packs_a(p: GemmProblem, near: L2Budget) -> bool:
    """Whether to pack a: depth steps are far apart, or at an unknown stride."""
    if p.a_depth == p.a_type.size or (p.near and p.a_row == p.a_type.size):
        return False
    if not (is_known(p.a_depth) and is_known(p.k)):
        return True
    return (
        p.k > _MAX_UNPACKED_A_DEPTH
        or p.k * p.a_depth > _MAX_UNPACKED_A_SPAN_BYTES
        or 2 * p.k > near.lines(p.a_depth)
    )


def _packs_b(p: GemmProblem, near: L2Budget) -> bool:
    """Whether to pack b: not contiguous, too large for L2, or read by many rows of a."""
    if p.b_column != p.b_type.size:
        return True
    if p.near:
        return False
    far = not (is_known(p.k) and is_known(p.b_depth)) or p.k * p.b_depth > near.b
    return not is_known(p.m) or p.m >= (
        _MIN_ROWS_TO_PACK_FAR_B if far else _MIN_ROWS_TO_PACK_CACHED_B
    )


def cache_lines_reached(stride: int, page: int, ways: int) -> int:
    """Lines at a stride that a cache can hold: strides that divide its page reach few sets."""
    return page // gcd(page, max(stride, 64)) * ways


def _block_depth(depth: int) -> int:
    """The length of the blocks of a long depth: all equal if a divisor is close."""
    least = -(-depth // BLOCK_DEPTH)
    for blocks in range(least, 2 * least):
        if depth % blocks == 0:
            return depth // blocks
    return -(-depth // least)


def is_cheap_epilogue(body: list) -> bool:
    """Whether an epilogue is short enough to be emitted for every vector of a tile."""
    if any(
        not isinstance(store, Store) or store.indirect or store.mask is not None for store in body
    ):
        return False
    steps = [
        expression
        for expression in subexpressions(store.value for store in body)
        if isinstance(expression, Apply)
    ]
    costly = any(step.operation in _COSTLY_OPERATIONS for step in steps)
    return not costly and len(steps) <= _MAX_CHEAP_OPERATIONS and len(body) <= 2
