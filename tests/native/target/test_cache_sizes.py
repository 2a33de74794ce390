"""The sizes of the second-level and of the last cache, and products cut for caches of several
sizes."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flambeau.native.target import cache_sizes
from flambeau.native.codegen.kernel import emit
from flambeau.native.jit import scratch_slots  # noqa: F401 - what kernels take scratch by
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import host

from ..conftest import poisoned, unharmed
from ..contractions.test_gemm import matrix_product


def written(folder: Path, name: str, level: str, size: str, kind: str = "Unified"
            ) -> None:
    (folder / name).mkdir()
    (folder / name / "type").write_text(kind + "\n")
    (folder / name / "level").write_text(level + "\n")
    (folder / name / "size").write_text(size + "\n")


@pytest.mark.parametrize(("size", "expected"), [
    ("2048K", 2 << 20), ("1M", 1 << 20), ("1280K", 1280 << 10), ("many", None),
])
def test_linux_tells_the_size_by_level(tmp_path: Path, size: str, expected: int | None) -> None:
    written(tmp_path, "index0", "1", "48K", "Data")
    written(tmp_path, "index1", "1", "32K", "Instruction")
    written(tmp_path, "index2", "2", size)
    written(tmp_path, "index3", "3", "32768K")
    sizes = cache_sizes._read_sysfs(tmp_path)
    assert (sizes.get(2), sizes[3]) == (expected, 32 << 20)


def test_an_unknown_size_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache_sizes, "_FOLDER", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_sizes.detect_l2_bytes() == cache_sizes.DEFAULT_L2_BYTES
    assert cache_sizes.detect_llc_bytes() == cache_sizes.DEFAULT_LLC_BYTES
    assert [cache_sizes.round_down_l2(n << 10) for n in (64, 1280, 3072, 16384)] == [
        256 << 10, 1 << 20, 2 << 20, 2 << 20]


@pytest.mark.parametrize("near", [256 << 10, 512 << 10, 2 << 20])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_products_are_right_whatever_is_near(near: int, sized: bool, flip: bool) -> None:
    m, n, k = 150, 330, 700
    kernel = matrix_product(m, n, k, flipped=(flip, False), sized=sized)
    text = emit(kernel, replace(host(), l2_bytes=near), "product")
    rng = np.random.default_rng(near)
    a = rng.normal(size=(k, m) if flip else (m, k)).astype(np.float32)
    b = rng.normal(size=(k, n)).astype(np.float32)
    memories = [poisoned(x) for x in (a, b, np.zeros((m, n), np.float32))]
    sizes = [m, n, k, a.shape[1], n, n] if sized else []
    values = [*(inside.ctypes.data for _, inside in memories), *sizes]
    cells = (ctypes.c_int64 * len(values))(*values)
    address = load(text, ["product"])["product"]
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)(0, 1, cells)
    for memory, inside in memories:
        assert unharmed(memory, inside.dtype.itemsize)
    expected = (a.T if flip else a).astype(np.float64) @ b
    np.testing.assert_allclose(memories[2][1].reshape(m, n), expected, rtol=1e-4, atol=1e-3)
