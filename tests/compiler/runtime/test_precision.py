"""set_float32_matmul_precision: compiled programs are of the precision that is asked for now."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.target.machine import host


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
    elif host().pairs:
        assert rough["highest"] == rough["high"]
        assert 1e-2 < rough["medium"] < 1
    else:
        assert rough["medium"] == rough["highest"]


@pytest.mark.skipif(not host().pairs, reason="no AVX512_BF16")
def test_eager_products_are_of_the_precision_that_is_asked_for(highest_after):
    torch.manual_seed(0)
    x, w = torch.randn(128, 96), torch.randn(96, 80)
    exact = x.numpy().astype(np.float64) @ w.numpy()
    rough = {}
    for name in ("highest", "medium"):
        torch.set_float32_matmul_precision(name)
        products = [x @ w for _ in range(10)]  # kernels are used from the eighth call on
        rough[name] = float(np.abs(products[-1].numpy() - exact).max())
    assert rough["highest"] < 1e-4 < 1e-2 < rough["medium"] < 1


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_half_precision_products_are_exact_before_they_are_rounded(dtype):
    torch.manual_seed(0)
    x, w = torch.randn(48, 64).to(dtype), torch.randn(64, 80).to(dtype)
    fast = torch.compile(lambda a, b: a @ b, mode="now")
    for _ in range(4):
        y = fast(x, w)
    assert ("to 8 bits" in fast.explain(4)) == (dtype is torch.bfloat16)
    exact = x.double() @ w.double()
    step = 2.0 ** (-8 if dtype is torch.bfloat16 else -11)
    assert ((y.double() - exact).abs() <= step * exact.abs() + 1e-4).all()


def test_linear_of_a_stack_in_half_precision_is_that_of_its_rows():
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 5, 8), torch.randn(4, 8), torch.randn(4)
    x, w, b = (t.bfloat16() for t in (x, w, b))
    whole = torch.nn.functional.linear(x, w, b)
    rows = torch.stack([torch.nn.functional.linear(row, w, b) for row in x])
    assert torch.equal(whole, rows)
    assert whole.dtype is torch.bfloat16
