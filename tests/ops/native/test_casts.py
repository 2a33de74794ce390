"""Casts of large tensors in machine code: what PyTorch gives, also for what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import fast_call
from flambeau.ops.creation import conversion
from flambeau.ops.native import pointwise

FLOATS = [3e9, -3e9, 300.7, -300.7, 70000.3, -70000.5, 1e20, -1e20, np.nan, np.inf, -np.inf, -1.5]
LEAST = -(2**31)
# PyTorch 2.13's, of the numbers above as float32.
EXPECTED = {
    "int8": [0, 0, 44, -44, 112, -112, 0, 0, 0, 0, 0, -1],
    "uint8": [0, 0, 44, 212, 112, 144, 0, 0, 0, 0, 0, 255],
    "int16": [0, 0, 300, -300, 4464, -4464, 0, 0, 0, 0, 0, -1],
    "int32": [LEAST, LEAST, 300, -300, 70000, -70000, *[LEAST] * 5, -1],
    "int64": [3000000000, -3000000000, 300, -300, 70000, -70000, *[-(2**63)] * 5, -1],
    "bool": [True] * 12,
}


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for few elements, on two threads."""
    monkeypatch.setattr(conversion, "MAX_NUMPY_COSTLY_ELEMENTS", 3)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 3)
    for name in ("MAX_NUMPY_POINTWISE_ELEMENTS", "MAX_NUMPY_COSTLY_ELEMENTS",
                 "MAX_NUMPY_CHEAP_ELEMENTS"):
        monkeypatch.setattr(pointwise, name, 3)
    for name in ("_ready", "_straight"):
        monkeypatch.setattr(pointwise, name, {})


@pytest.mark.parametrize("target", EXPECTED)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_that_do_not_fit(source: str, target: str) -> None:
    x = torch.tensor(FLOATS, dtype=torch.float32).to(getattr(torch, source))
    expected = EXPECTED[target]
    for _ in range(4):  # array code, then the kernel
        assert x.to(getattr(torch, target)).tolist() == expected


def test_great_float64_as_bytes_go_by_way_of_int64() -> None:
    x = torch.tensor([3e9 + 200.7, 4e9 + 77, 2.0**40 + 5, 255.9], dtype=torch.float64)
    for _ in range(4):
        assert x.to(torch.uint8).tolist() == [200, 77, 5, 255]
        assert x.to(torch.int16).tolist() == [0, 0, 0, 255]


@pytest.mark.parametrize("target", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32"])
@pytest.mark.parametrize("source", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers(source: str, target: str) -> None:
    drawn = np.random.default_rng(0).integers(-(2**40), 2**40, 101).astype(source)
    x, expected = torch.from_numpy(drawn), drawn.astype(target)
    for _ in range(4):
        y = x.to(getattr(torch, target)).numpy()
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


def test_a_kernel_serves_each_pair() -> None:
    x = torch.tensor(FLOATS)
    for _ in range(3):
        x.int(), x.int().long(), x.long().bool()
    kinds = [key[0][1].name for key, kernel in pointwise._ready.items()
             if kernel.__class__ is tuple]
    assert sorted(kinds) == ["bool", "int32", "int64", "int64"]
