"""Large products in machine code: the same results in every layout, and when they are used."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.kernels.gemm import GemmLayout, build_product
from flambeau.native.loop_ir.ir import Contract, Type
from flambeau.native.runtime import background_jit
from flambeau.native.runtime.background_jit import CallCounts
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import matmul


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels from few multiplications on, and at once."""
    monkeypatch.setattr(matmul, "MIN_PRODUCT_MULTIPLICATIONS", 1)
    monkeypatch.setattr(matmul, "PRODUCT_CALLS_BEFORE_USE", 3)
    monkeypatch.setattr(matmul, "_calls", CallCounts(64, on_small_arrays=False))
    monkeypatch.setattr(matmul, "_plans", {})


def ready(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """The product by a kernel, once there is one."""
    until = time.monotonic() + 120
    while (result := matmul.try_product(a, b, bias)) is None:
        assert time.monotonic() < until, "no kernel came"
        time.sleep(0.005)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("a_flipped", [False, True])
@pytest.mark.parametrize("b_flipped", [False, True])
def test_layouts(dtype: type, a_flipped: bool, b_flipped: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(33, 41) if a_flipped else (41, 33)).astype(dtype)
    b = rng.normal(size=(50, 33) if b_flipped else (33, 50)).astype(dtype)
    a, b = a.T if a_flipped else a, b.T if b_flipped else b
    bias = rng.normal(size=50).astype(dtype)
    np.testing.assert_allclose(ready(a, b), a @ b, 1e-4, 1e-4)
    np.testing.assert_allclose(ready(a[:, 3:20], b[3:20, 1:49]), a[:, 3:20] @ b[3:20, 1:49],
                               1e-4, 1e-4)
    np.testing.assert_allclose(ready(a, b, bias), a @ b + bias, 1e-4, 1e-4)


def test_stacks() -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(3, 20, 4, 16)).astype("f") for _ in range(2))
    a, b = q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(ready(a, b), a @ b, 1e-4, 1e-4)


@pytest.mark.parametrize("a_flipped", [False, True])
def test_rows_of_a_stack_are_cut_for_many_threads(
    a_flipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(POOL, "count", 16)
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 3, 20, 256) if a_flipped else (2, 3, 256, 20)).astype("f")
    a = a.swapaxes(-1, -2) if a_flipped else a
    b = rng.normal(size=(2, 3, 20, 40)).astype("f")[..., :37]
    np.testing.assert_allclose(ready(a, b), a @ b, 1e-4, 1e-4)
    (plan,) = matmul._plans.values()
    assert plan.sizes[:3] == (128, 37, 20)


def test_a_stack_of_one_is_shared_out_as_one_product() -> None:
    """Among all threads, where rounds of a loop over the stack would leave all but one idle."""
    strides = (64, 64, 8, 1)
    kernel = build_product(GemmLayout(Type.F32, (1, 1), 8, 8, 8, strides, strides))
    assert [type(statement) for statement in kernel.body] == [Contract]
    a = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype("f")
    np.testing.assert_allclose(ready(a, a), a @ a, 1e-4, 1e-4)


def test_what_does_not_fit_is_left_to_others() -> None:
    a, b = np.ones((8, 8), "f"), np.ones((8, 8), "f")
    for pair in ((a, b.astype("d")), (a[::-1], b), (a[:, ::2], b[:4, ::2]), (a, np.ones(8, "f")),
                 (a, np.ones((7, 8), "f")), (a.astype("i"), b.astype("i"))):
        for _ in range(5):
            assert matmul.try_product(*pair) is None
    assert not matmul._calls.counts


def test_a_bias_of_another_shape_is_left_to_others() -> None:
    """Also after a bias that a kernel adds: it would read behind the shorter one's memory."""
    a, b = np.ones((9, 8), "f"), np.ones((8, 7), "f")
    ready(a, b, np.ones(7, "f"))
    for bias in (np.ones(1, "f"), np.float32(1)[...], np.ones(14, "f")[::2], np.ones(7)):
        assert matmul.try_product(a, b, bias) is None
    x, weight = torch.ones(9, 8), torch.ones(7, 8)
    y = torch.nn.functional.linear(x, weight, torch.ones(1))
    assert y.tolist() == [[9.0] * 7] * 9


def test_operators_use_them_and_agree() -> None:
    torch.manual_seed(0)
    x, w, bias = torch.randn(130, 70), torch.randn(90, 70), torch.randn(90)
    ready(x.numpy(), w.numpy().T, bias.numpy())
    ready(x.numpy(), w.numpy().T)
    wanted = torch.tensor(x.numpy() @ w.numpy().T)
    assert torch.allclose(torch.nn.functional.linear(x, w, bias), wanted + bias, 1e-4, 1e-4)
    assert torch.allclose(x @ w.T, wanted, 1e-4, 1e-4)


def test_deterministic_algorithms_do_not_change_over() -> None:
    a = np.ones((64, 64), "f")
    ready(a, a)
    torch.use_deterministic_algorithms(True)
    try:
        assert matmul.try_product(a, a) is None
    finally:
        torch.use_deterministic_algorithms(False)
    assert matmul.try_product(a, a) is not None


def test_which_call_is_the_first_depends_on_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on how long a kernel takes to make, nor on the shapes."""
    monkeypatch.setattr(matmul, "PRODUCT_CALLS_BEFORE_USE", 6)
    for name in ("_ready", "_compiling"):  # another test's kernel would serve the second call
        monkeypatch.setattr(background_jit, name, {})
    rng = np.random.default_rng(0)
    results = [matmul.try_product(*(rng.normal(size=(9 + i, 9 + i)) for _ in "ab"))
             for i in range(8)]
    assert [y is not None for y in results] == [False] * 5 + [True] * 3
