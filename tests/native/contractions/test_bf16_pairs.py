"""Products of bfloat16 numbers two at a time: values, edges, what is not finite, the instruction.

They run where the processor has it (AVX512_BF16); everywhere their assembly is looked at.
"""

from __future__ import annotations

from itertools import product as combinations

import ml_dtypes
import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.kernels.gemm import GemmForm, build_sized_product
from flambeau.native.loop_ir.ir import Type
from flambeau.native.target.machine import TARGETS, emit_assembly, host

from ..conftest import poisoned, unharmed
from .test_gemm import check as check_known
from .test_gemm import loops, matrix_product
from .test_dynamic_gemm import EXTENTS, check

instruction = pytest.mark.skipif(not host().pairs, reason="no AVX512_BF16")
LAYOUTS = list(combinations((True, False), repeat=2))


@instruction
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_edge(layout: tuple[bool, bool], near: bool) -> None:
    for extents in EXTENTS:
        check(GemmForm(Type.BF16, *layout, near=near), (), extents, pad=3)
    for k in (2, 3, 31, 32, 33, 34):
        check(GemmForm(Type.BF16, *layout, near=near), (), (17, 70, k), pad=2)


@instruction
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_depth_is_cut(layout: tuple[bool, bool]) -> None:
    for depth in (4500, 4501):
        check(GemmForm(Type.BF16, *layout), (), (10, 50, depth))
        check_known(10, 50, depth, layout, Type.BF16)


@instruction
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks_and_known_extents(layout: tuple[bool, bool]) -> None:
    check(GemmForm(Type.BF16, *layout, 2), (2, 3), (31, 49, 17), pad=2)
    for m, n, k in ((17, 35, 29), (64, 100, 50), (9, 8, 131), (40, 64, 1)):
        check_known(m, n, k, layout, Type.BF16, threads=2)
        check_known(m, n, k, layout, Type.BF16, batch=2)


@instruction
@pytest.mark.parametrize("layout", LAYOUTS)
def test_float32_numbers_of_which_eight_bits_count(layout: tuple[bool, bool]) -> None:
    """Exact where they are bfloat16 numbers, else rounded to the nearest."""
    rng = np.random.default_rng(0)
    for m, n, k in ((17, 70, 1), (31, 49, 66), (5, 48, 131), (40, 33, 32)):
        function = compile_kernel(build_sized_product(GemmForm(Type.F32, *layout, precision=1)))
        a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
        for exact in (False, True):
            near = [x.astype(ml_dtypes.bfloat16).astype(np.float32) for x in (a, b)]
            inputs = near if exact else [a, b]
            x = inputs[0] if layout[0] else np.ascontiguousarray(inputs[0].T)
            y = np.ascontiguousarray(inputs[1].T) if layout[1] else inputs[1]
            memories = [poisoned(array) for array in (x, y, np.zeros((m, n), np.float32))]
            sizes = [m, n, k, x.shape[1], y.shape[1]]
            function.run([inside for _, inside in memories], sizes, 2)
            assert all(unharmed(memory, inside.dtype.itemsize) for memory, inside in memories)
            actual = memories[2][1].reshape(m, n)
            np.testing.assert_allclose(actual, near[0] @ near[1], 1e-5, 1e-5)


@instruction
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_not_finite_stays_in_its_row(layout: tuple[bool, bool], odd: float) -> None:
    """Also in the last step of an odd depth, whose pair is filled up with zeros."""
    m, n, k = 20, 60, 33
    function = compile_kernel(build_sized_product(GemmForm(Type.BF16, *layout)))
    for place in ((0, 0), (7, k - 1), (m - 1, 16)):
        a, b = np.ones((m, k), ml_dtypes.bfloat16), np.ones((k, n), ml_dtypes.bfloat16)
        a[place] = odd
        c = np.zeros((m, n), ml_dtypes.bfloat16)
        x = np.ascontiguousarray(a if layout[0] else a.T)
        y = np.ascontiguousarray(b.T if layout[1] else b)
        function.run([x, y, c], [m, n, k, x.shape[1], y.shape[1]], 2)
        wanted = np.full((m, n), k, np.float32)
        wanted[place[0]] = np.float32(a[place]) + k - 1
        wanted = wanted.astype(ml_dtypes.bfloat16).astype(np.float32)
        np.testing.assert_array_equal(c.astype(np.float32), wanted)


@pytest.mark.parametrize("flipped", LAYOUTS)
def test_inner_loops_multiply_pairs_in_registers(flipped: tuple[bool, bool]) -> None:
    target = TARGETS["avx512-bf16"]
    kernel = matrix_product(96, 96, 96, flipped, Type.BF16)
    inner = [loop for loop in loops(emit_assembly(emit(kernel, target), target))
             if any("vdpbf16ps" in line for line in loop)]
    assert inner
    for loop in inner:
        assert sum("vdpbf16ps" in line for line in loop) >= 8
        assert not any("(%rsp)" in line or "vfmadd" in line for line in loop)


@pytest.mark.parametrize("without", ["avx512", "avx2", "neon"])
def test_only_processors_that_have_it_are_asked_for_it(without: str) -> None:
    kernel = build_sized_product(GemmForm(Type.BF16, True, False))
    assert "dpbf16ps" not in emit(kernel, TARGETS[without])
    assert "dpbf16ps" in emit(kernel, TARGETS["avx512-bf16"])
    assert "dpbf16ps" not in emit(build_sized_product(GemmForm(Type.F16, True, False)),
                                  TARGETS["avx512-bf16"])
