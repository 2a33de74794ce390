"""Products of 8-bit integers: exact against 64-bit ones, at all edges; the instructions of targets.

VPDPBUSD runs where the processor has it; everywhere its assembly is looked at.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flambeau.native.codegen.kernel import emit
from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels.byte_products import (
    ByteProductForm, build_byte_product, panel_columns, quantize_bytes,
)
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.verify import verify
from flambeau.native.target.machine import TARGETS, emit_assembly
from flambeau.ops.native.byte_products import pack_panels

from ..conftest import poisoned, unharmed

EXTENTS = [(1, 1, 1), (3, 16, 4), (7, 33, 5), (13, 50, 63), (6, 48, 101), (20, 100, 37),
           (5, 17, 5000)]


def operands(m: int, n: int, k: int, low: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded with noise, and weights; the largest products among them."""
    rng = np.random.default_rng(m * n + k)
    a = rng.integers(0, 128 if low else 256, (m, -(-k // 4) * 4), dtype=np.uint8)
    w = rng.integers(-128, 128, (n, k), dtype=np.int8)
    a[0], w[0] = (127 if low else 255), -128
    a[-1], w[-1] = (127 if low else 255), 127
    return a, w


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("integers", [True, False])
def test_every_edge(
    extents: tuple[int, int, int], known: bool, low: bool, integers: bool
) -> None:
    m, n, k = extents
    a, w = operands(m, n, k, low)
    panels = pack_panels(w)
    if panels is None:
        pytest.skip("x86 only")
    columns = panel_columns()
    rng = np.random.default_rng(1)
    corrections = rng.integers(-1000, 1000, n).astype(np.int32)
    factors = [rng.normal(size=n).astype(np.float32) for _ in range(2)]
    sums = a[:, :k].astype(np.int64) @ w.T.astype(np.int64) - corrections
    expected = sums if integers else (
        sums.astype(np.float32).astype(np.float64) * factors[0] + factors[1]).astype(np.float32)
    for threads in (1, 3):
        memory, c = poisoned(np.zeros((m, n), np.int32 if integers else np.float32))
        per_column = [corrections] if integers else [corrections, *factors]
        for whole, first in ((True, 0), (False, n // columns * columns)):
            if (whole and n < columns) or (not whole and first == n):
                continue
            form = ByteProductForm(columns, m if known else None, low, integers, whole)
            arrays = [a.view(np.int32), panels.quads[first // columns :],
                      *(x[first:] for x in per_column), c[first:]]
            sizes = [m, a.shape[1] // 4, n, n // columns, a.shape[1] // 4 * columns, n - first]
            compile_kernel(build_byte_product(form)).run(arrays, sizes, threads)
        assert (c.reshape(m, n) == expected).all()
        assert unharmed(memory, 4)


def test_the_interpreter_agrees() -> None:
    a, w = operands(3, 8, 10, False)
    columns, quads = 8, 3
    padded = np.zeros((8, 12), np.int8)
    padded[:, :10] = w
    b = np.ascontiguousarray(padded.reshape(1, 8, 3, 4).transpose(0, 2, 1, 3)).view(np.int32)
    kernel = build_byte_product(ByteProductForm(columns, None, False, True, True))
    verify(kernel)
    c = np.zeros(24, np.int32)
    arrays = [a.view(np.int32).reshape(-1), b.reshape(-1), np.zeros(8, np.int32), c]
    interpret(kernel, arrays, [3, quads, 8, 1, quads * columns, 0])
    assert (c.reshape(3, 8) == a[:, :10].astype(int) @ w.T.astype(int)).all()


@pytest.mark.parametrize(("name", "low", "present", "absent"), [
    ("avx2", True, "vpmaddubsw", "vpdpbusd"), ("avx2", False, "vpmaddubsw", "vpdpbusd"),
    ("avx512", True, "vpmaddubsw", "vpdpbusd"), ("avx512-bf16", True, "vpdpbusd", "vpmaddubsw"),
    ("amx", False, "vpdpbusd", "vpmaddubsw"), ("sse4", True, "pmaddubsw", "vpdpbusd"),
    ("neon", False, "mla", "vpdpbusd"),
])
def test_the_instructions_of_targets(name: str, low: bool, present: str, absent: str) -> None:
    target = TARGETS[name]
    text = emit(build_byte_product(ByteProductForm(32, None, low, False, True)), target)
    assembly = emit_assembly(text, target)
    assert present in assembly and absent not in assembly


def test_avx_vnni_is_used_in_256_bits() -> None:
    target = replace(TARGETS["avx2"], cpu="alderlake", byte_quads=True)
    text = emit(build_byte_product(ByteProductForm(16, 4, False, True, True)), target)
    assert "vpdpbusd" in emit_assembly(text, target)


def test_rows_become_bytes_as_pytorch_rounds() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -7.0], [300.0, np.nan, np.inf, -np.inf, 0.0]], np.float32)
    memory, y = poisoned(np.zeros((2, 8), np.uint8))
    compile_kernel(quantize_bytes()).run([x, np.array([1, 3], np.float32), y], [2, 5, 8])
    assert y.reshape(2, 8)[:, :5].tolist() == [[4, 4, 6, 2, 0], [255, 255, 255, 0, 3]]
    assert unharmed(memory, 1)
