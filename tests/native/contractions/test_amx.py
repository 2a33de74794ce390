"""Products of bfloat16 parts on the matrix unit: as exact as they must be, and what is not finite.

They run where there is such a unit; everywhere their assembly is made and looked at.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import product as combinations

import ml_dtypes
import numpy as np
import pytest

from flambeau.native.target import machine
from flambeau.native.codegen.kernel import emit
from flambeau.native.codegen.gemm.amx_tiles import list_term_products
from flambeau.native.kernels.gemm import GemmLayout, build_product
from flambeau.native.loop_ir.ir import Contract, Kernel, Type, iterate_statements
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS, emit_assembly, host

from ..conftest import poisoned, unharmed
from .test_gemm import bias_tanh, matrix_product

unit = pytest.mark.skipif(host().parts == 0, reason="no matrix unit")
EPSILON = {3: 2.0**-22, 2: 2.0**-14, 1: 2.0**-7}  # of the sum of the magnitudes of products
DTYPES = {Type.F32: np.float32, Type.BF16: ml_dtypes.bfloat16}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """The unit is used wherever it can be, for whatever it costs."""
    monkeypatch.setattr("flambeau.native.codegen.gemm.amx_blocking.FMA_PER_CYCLE", 1.0)


def precise(kernel: Kernel, precision: int) -> Kernel:
    for statement in iterate_statements(kernel.body):
        if isinstance(statement, Contract):
            statement.precision = precision
    return kernel


def run(kernel: Kernel, arrays: list[np.ndarray], threads: int = 1) -> None:
    """Runs a kernel made for all parts that there may be, which an untold host does not use."""
    text = emit(kernel, replace(host(), parts=3), "in_parts")
    assert "tdpbf16ps" in text
    address = load(text, ["in_parts"])["in_parts"]
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)
    cells = (ctypes.c_int64 * len(arrays))(*(a.ctypes.data for a in arrays))
    for tid in range(threads):
        function(tid, threads, cells)


def operands(m: int, n: int, k: int, flipped: tuple[bool, bool], type: Type = Type.F32
             ) -> list[np.ndarray]:
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    return [(rng.normal(size=(k, m) if flipped[0] else (m, k)) * 3).astype(DTYPES[type]),
            rng.normal(size=(n, k) if flipped[1] else (k, n)).astype(DTYPES[type])]


def wanted(operands: list[np.ndarray], flipped: tuple[bool, bool]) -> tuple[np.ndarray, np.ndarray]:
    """The product in float64, and the sums of magnitudes that errors are measured by."""
    a, b = (x.astype(np.float64).T if turn else x.astype(np.float64)
            for x, turn in zip(operands, flipped, strict=True))
    return a @ b, np.abs(a) @ np.abs(b)


SIZES = [(65, 97, 33), (47, 80, 130)]


@unit
@pytest.mark.parametrize("precision", (3, 2, 1))
@pytest.mark.parametrize("flipped", list(combinations((False, True), repeat=2)))
@pytest.mark.parametrize("size", SIZES)
def test_float32_in_parts(size, flipped, precision):
    inputs = operands(*size, flipped)
    out = np.full(size[:2], 7, np.float32)
    memories = [poisoned(x) for x in (*inputs, out)]
    run(precise(matrix_product(*size, flipped), precision), [inside for _, inside in memories], 2)
    assert all(unharmed(memory, 4) for memory, _ in memories)
    exact, magnitude = wanted(inputs, flipped)
    gap = np.abs(memories[2][1].reshape(out.shape) - exact) / magnitude
    assert gap.max() < EPSILON[precision]
    if precision < 3:  # fewer parts are used indeed
        assert gap.max() > EPSILON[precision + 1]


@unit
@pytest.mark.parametrize("flipped", list(combinations((False, True), repeat=2)))
def test_bfloat16_is_multiplied_as_it_is(flipped):
    size = (70, 65, 90)
    inputs = operands(*size, flipped, Type.BF16)
    out = np.zeros(size[:2], np.float32)
    run(matrix_product(*size, flipped, Type.BF16), [*inputs, out])
    exact, magnitude = wanted(inputs, flipped)
    assert (np.abs(out - exact) / magnitude).max() < EPSILON[3]


@unit
@pytest.mark.parametrize("precision", (3, 1))
def test_a_cut_depth_and_an_epilogue(precision):
    size = (40, 70, 2500)
    inputs = [x / 50 for x in operands(*size, (False, True))]
    bias = np.linspace(-1, 1, 70, dtype=np.float32)
    out = np.zeros(size[:2], np.float32)
    kernel = precise(matrix_product(*size, (False, True), epilogue=bias_tanh), precision)
    run(kernel, [*inputs, out, bias], 3)
    exact, magnitude = wanted(inputs, (False, True))
    bound = EPSILON[precision] * magnitude.max() + 1e-6
    np.testing.assert_allclose(out, np.tanh(exact + bias), 0, bound)


@unit
def test_products_side_by_side():
    size, batch = (48, 64, 48), 5
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(batch, *s)).astype(np.float32) for s in ((48, 48), (48, 64)))
    out = np.zeros((batch, 48, 64), np.float32)
    run(matrix_product(*size, batch=batch), [a, b, out], 2)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, 1e-5, 1e-5)


@unit
@pytest.mark.parametrize("precision", (3, 2, 1))
@pytest.mark.parametrize("flipped", ((False, False), (True, True)))
def test_extreme_numbers(flipped, precision):
    """An infinity times a part that is 0 would be no number."""
    size = (192, 64, 64)
    inputs = operands(*size, flipped)
    a = inputs[0].T if flipped[0] else inputs[0]
    for row, value in ((3, np.inf), (45, -np.inf), (77, np.nan), (101, 3.3e38), (140, 1e-44)):
        a[row, 13] = value  # each in another panel
    b = inputs[1].T if flipped[1] else inputs[1]
    b[:, 5] = np.round(b[:, 5])  # numbers of one part
    out = np.zeros(size[:2], np.float32)
    run(precise(matrix_product(*size, flipped), precision), [*inputs, out])
    with np.errstate(all="ignore"):
        exact, magnitude = wanted(inputs, flipped)
        single = exact.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(out), np.isnan(single))
        near = np.abs(exact) > 3.2e38  # may overflow, or not quite
        np.testing.assert_array_equal(np.isinf(out)[~near], np.isinf(single)[~near])
        fine = np.isfinite(single) & ~near
        assert (np.abs(out - exact) / magnitude)[fine].max() < EPSILON[precision]


@unit
def test_a_panel_of_tiny_numbers_keeps_what_parts_can_say():
    """The unit counts parts below 1e-38 as 0, and would leave 8 bits."""
    inputs = operands(64, 64, 64, (False, False))
    inputs[0] *= np.float32(1e-36)
    out = np.zeros((64, 64), np.float32)
    run(matrix_product(64, 64, 64), [*inputs, out])
    exact, magnitude = wanted(inputs, (False, False))
    assert (np.abs(out - exact) / magnitude).max() < 2.0**-16


@unit
def test_the_eager_kernel_rounds_once():
    inputs = operands(64, 64, 64, (False, False), Type.BF16)
    out = np.zeros((64, 64), ml_dtypes.bfloat16)
    run(build_product(GemmLayout(Type.BF16, (), 64, 64, 64, (64, 1), (64, 1))), [*inputs, out])
    exact, magnitude = wanted(inputs, (False, False))
    bound = 2.0**-8 * np.abs(exact) + EPSILON[3] * magnitude
    assert (np.abs(out.astype(np.float64) - exact) <= bound).all()


def test_which_products_of_parts_count():
    assert sorted(list_term_products(3, 3)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert sorted(list_term_products(2, 2)) == [(0, 0), (0, 1), (1, 0)]
    assert list_term_products(1, 1) == [(0, 0)]
    assert sorted(list_term_products(3, 1)) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize(("precision", "products"), ((3, 6), (2, 3), (1, 1)))
def test_the_assembly_of_a_tile(precision, products):
    text = emit(precise(matrix_product(64, 64, 64), precision), TARGETS["amx"], "tiles")
    assembly = emit_assembly(text, TARGETS["amx"])
    assert assembly.count("tdpbf16ps") == 4 * products  # for 2 x 2 tiles
    assert "ldtilecfg" in assembly and "tilerelease" in assembly
    plain = emit(precise(matrix_product(64, 64, 64), precision), TARGETS["avx512"], "plain")
    assert "tdpbf16ps" not in plain


def test_float32_keeps_to_multiply_adds_unless_less_is_asked_for():
    fast = replace(TARGETS["amx"], parts=2)
    assert "tdpbf16ps" not in emit(matrix_product(64, 64, 64), fast, "whole")
    assert "tdpbf16ps" in emit(precise(matrix_product(64, 64, 64), 2), fast, "less")


def test_a_process_that_may_not_use_the_unit_has_none(monkeypatch):
    monkeypatch.setattr(machine, "_request_amx_permission", lambda: False)
    monkeypatch.delenv("FLAMBEAU_CPU", raising=False)
    host.cache_clear()
    try:
        assert host().parts == 0
    finally:
        host.cache_clear()
