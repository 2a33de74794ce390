"""set_float32_matmul_precision: compiled programs are of the precision that is asked for now."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.target import host


@pytest.fixture
def highest_after():
    yield
    torch.set_float32_matmul_precision("highest")


def test_a_program_belongs_to_the_precision_it_was_made_in(highest_after):
    torch.manual_seed(0)
    x, w = torch.randn(64, 96), torch.randn(96, 80)
    fast = torch.compile(lambda a, b: a @ b, mode="now")
    exact = x.numpy().astype(np.float64) @ w.numpy()

    def error() -> float:
        for _ in range(4):
            y = fast(x, w)
        return float(np.abs(y.numpy() - exact).max())

    rough = {}
    for name in ("highest", "medium", "high", "highest"):
        torch.set_float32_matmul_precision(name)
        rough[name] = error()
    assert rough["highest"] < 1e-4
    if host().parts:
        assert rough["highest"] < rough["high"] < rough["medium"]
        assert 1e-2 < rough["medium"] < 1
    else:
        assert rough["medium"] == rough["highest"]
