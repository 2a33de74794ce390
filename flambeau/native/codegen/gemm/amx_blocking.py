"""When a product runs on AMX in bfloat16 terms, and how it is blocked."""

from __future__ import annotations

from typing import Any

from ...loop_ir.ir import Type
from ...target.amx import DEPTH_PER_TILE, SIDE
from ...target.cost_model import (
    AMX_BLOCK_DEPTH, AMX_PACK_CYCLES_CONTIGUOUS, AMX_PACK_CYCLES_TRANSPOSED, AMX_STARTUP_CYCLES,
    AMX_TILE_CYCLES, FMA_PER_CYCLE, MAX_AMX_UNCUT_DEPTH,
)
from .amx_split import count_bf16_terms
from .amx_tiles import list_term_products
from .blocking import GemmPlan, GemmProblem, is_known
from .micro_kernel import MicroTile

TILE = MicroTile(2 * SIDE, 2, SIDE, Type.F32)
_MIN_EXTENT = SIDE  # rows, columns and depth, below which a tile is mostly padding


def is_profitable(p: GemmProblem, target: Any) -> bool:
    """Whether AMX computes a product faster than vector multiply-adds would."""
    of_a, of_b = count_bf16_terms(p.a_type, p.precision), count_bf16_terms(p.b_type, p.precision)
    if p.type is not Type.F32 or not 0 < min(of_a, of_b) <= max(of_a, of_b) <= target.parts:
        return False
    if not (is_known(p.m) and is_known(p.n) and is_known(p.k)) or min(p.m, p.n, p.k) < _MIN_EXTENT:
        return False
    if p.a_type.size not in (p.a_row, p.a_depth) or p.b_type.size not in (p.b_depth, p.b_column):
        return False
    return _estimate_cycles(p, of_a, of_b) < p.m * p.n * p.k / FMA_PER_CYCLE


def _estimate_cycles(p: Any, of_a: int, of_b: int) -> float:
    """Cycles of one core for the whole product."""
    tiles = -(-p.m // SIDE) * -(-p.n // SIDE) * -(-p.k // DEPTH_PER_TILE)
    a = AMX_PACK_CYCLES_CONTIGUOUS if p.a_depth == p.a_type.size else AMX_PACK_CYCLES_TRANSPOSED
    b = AMX_PACK_CYCLES_CONTIGUOUS if p.b_column == p.b_type.size else AMX_PACK_CYCLES_TRANSPOSED
    packing = p.k * (p.m * a * of_a + p.n * b * of_b) / 3
    products = len(list_term_products(of_a, of_b))
    return tiles * products * AMX_TILE_CYCLES + packing + AMX_STARTUP_CYCLES


def plan_amx(p: GemmProblem) -> GemmPlan:
    """The blocking of a product whose panels are packed as bfloat16 terms."""
    if p.k <= MAX_AMX_UNCUT_DEPTH:
        return GemmPlan(TILE, True, True, p.k, False, 1)
    blocks = -(-p.k // AMX_BLOCK_DEPTH)
    depth = -(-p.k // blocks // DEPTH_PER_TILE) * DEPTH_PER_TILE
    return GemmPlan(TILE, True, True, depth, True, 1)
