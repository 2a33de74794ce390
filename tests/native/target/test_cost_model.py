"""The cost model's decisions on the machines measured so far, pinned."""

from __future__ import annotations

import pytest

from flambeau.native.codegen.gemm.blocking import GemmProblem, plan_gemm
from flambeau.native.loop_ir.ir import Index, Type
from flambeau.native.target import cost_model
from flambeau.native.target.machine import TARGETS

# Target, (m, n, k), transposition, threads: register tile, packed operands, depth block, unrolling.
DECISIONS = [
    ("avx2", (128, 1024, 784), "nn", 1, (4, 3), "b", 784, 4),
    ("avx2", (128, 1024, 784), "nn", 16, (5, 2), "b", 784, 4),
    ("avx2", (128, 1024, 784), "tn", 1, (4, 3), "ab", 784, 4),
    ("avx2", (17, 33, 65), "nn", 1, (3, 3), "", 65, 4),
    ("avx2", (17, 33, 65), "nn", 16, (3, 3), "", 65, 4),
    ("avx2", (17, 33, 65), "tn", 1, (3, 3), "", 65, 4),
    ("avx2", (1, 4096, 1024), "nn", 1, (1, 5), "", 1024, 4),
    ("avx2", (1, 4096, 1024), "nn", 16, (1, 4), "", 1024, 4),
    ("avx2", (1, 4096, 1024), "tn", 1, (1, 5), "", 1024, 4),
    ("avx2", (32, 10, 256), "nn", 1, (6, 2), "", 256, 4),
    ("avx2", (32, 10, 256), "nn", 16, (6, 2), "", 256, 4),
    ("avx2", (32, 10, 256), "tn", 1, (6, 2), "", 256, 4),
    ("avx2", (4096, 64, 16), "nn", 1, (6, 2), "b", 16, 2),
    ("avx2", (4096, 64, 16), "nn", 16, (6, 2), "b", 16, 2),
    ("avx2", (4096, 64, 16), "tn", 1, (6, 2), "b", 16, 2),
    ("avx2", (512, 512, 4096), "nn", 1, (6, 2), "b", 1024, 4),
    ("avx2", (512, 512, 4096), "nn", 16, (6, 2), "b", 1024, 4),
    ("avx2", (512, 512, 4096), "tn", 1, (6, 2), "ab", 1024, 4),
    ("avx2", (64, 64, 64), "nn", 1, (6, 2), "", 64, 2),
    ("avx2", (64, 64, 64), "nn", 16, (4, 2), "", 64, 2),
    ("avx2", (64, 64, 64), "tn", 1, (6, 2), "", 64, 2),
    ("avx512", (128, 1024, 784), "nn", 1, (6, 4), "b", 784, 2),
    ("avx512", (128, 1024, 784), "nn", 16, (6, 4), "b", 784, 2),
    ("avx512", (128, 1024, 784), "tn", 1, (8, 3), "ab", 784, 2),
    ("avx512", (17, 33, 65), "nn", 1, (9, 3), "", 65, 1),
    ("avx512", (17, 33, 65), "nn", 16, (9, 3), "", 65, 1),
    ("avx512", (17, 33, 65), "tn", 1, (9, 3), "", 65, 1),
    ("avx512", (1, 4096, 1024), "nn", 1, (1, 6), "", 1024, 2),
    ("avx512", (1, 4096, 1024), "nn", 16, (1, 4), "", 1024, 2),
    ("avx512", (1, 4096, 1024), "tn", 1, (1, 6), "", 1024, 2),
    ("avx512", (32, 10, 256), "nn", 1, (16, 1), "", 256, 2),
    ("avx512", (32, 10, 256), "nn", 16, (16, 1), "", 256, 2),
    ("avx512", (32, 10, 256), "tn", 1, (16, 1), "", 256, 2),
    ("avx512", (4096, 64, 16), "nn", 1, (6, 4), "b", 16, 2),
    ("avx512", (4096, 64, 16), "nn", 16, (6, 4), "b", 16, 2),
    ("avx512", (4096, 64, 16), "tn", 1, (6, 4), "b", 16, 2),
    ("avx512", (512, 512, 4096), "nn", 1, (6, 4), "b", 1024, 2),
    ("avx512", (512, 512, 4096), "nn", 16, (6, 4), "b", 1024, 2),
    ("avx512", (512, 512, 4096), "tn", 1, (8, 3), "ab", 1024, 2),
    ("avx512", (64, 64, 64), "nn", 1, (6, 4), "", 64, 2),
    ("avx512", (64, 64, 64), "nn", 16, (16, 1), "", 64, 2),
    ("avx512", (64, 64, 64), "tn", 1, (6, 4), "", 64, 2),
]


@pytest.mark.parametrize(
    ("target", "shape", "form", "threads", "tile", "packed", "depth", "unroll"), DECISIONS
)
def test_products_are_blocked_as_measured(
    target: str, shape: tuple[int, int, int], form: str, threads: int, tile: tuple[int, int],
    packed: str, depth: int, unroll: int,
) -> None:
    m, n, k = shape
    a_row, a_depth = (4 * k, 4) if form[0] == "n" else (4, 4 * m)
    problem = GemmProblem(
        Index("row"), m, n, k, None, None, a_row, a_depth, 4 * n, 4, Type.F32, Type.F32, Type.F32,
        3, False,
    )
    plan = plan_gemm(problem, TARGETS[target], threads)
    operands = ("a" if plan.pack_a else "") + ("b" if plan.pack_b else "")
    assert ((plan.tile.rows, plan.tile.vectors), operands, plan.depth, plan.unroll) == (
        tile, packed, depth, unroll
    )


def test_strides_that_divide_a_page_reach_few_lines() -> None:
    page, ways = (2 << 20) // 16, 16
    assert cost_model.cache_lines_reached(64, page, ways) == (2 << 20) // 64
    assert cost_model.cache_lines_reached(4096, page, ways) == 512
    assert cost_model.cache_lines_reached(page, page, ways) == ways


def test_a_tile_costs_its_multiply_adds_or_its_loads() -> None:
    assert cost_model.tile_cycles(6, 4, True, 32) == pytest.approx(12 * 1.01)
    assert cost_model.tile_cycles(1, 4, True, 32) == pytest.approx(2.5 * 1.01)
    assert cost_model.tile_cycles(0, 4, True, 32) == 0
