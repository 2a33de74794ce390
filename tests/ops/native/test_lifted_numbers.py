"""Numbers that change at each call become operands of one kernel."""

from __future__ import annotations

import time
import warnings
from collections import Counter

import pytest

import flambeau as torch
from flambeau.native.target.eager_costs import MAX_KERNELS_BY_NUMBERS
from flambeau.ops.native import lifted_numbers, pointwise
from flambeau.ops.native.lifted_numbers import lift_call, lift_closure

F = torch.nn.functional
CASES = {
    "add": lambda x, y, a: torch.add(x, y, alpha=a), "lerp": lambda x, y, a: x.lerp(y, a),
    "add_": lambda x, y, a: x.clone().add_(y, alpha=a), "clamp": lambda x, y, a: x.clamp(-a, a),
    "addcmul_": lambda x, y, a: x.clone().addcmul_(y, y, value=a),
    "hardshrink": lambda x, y, a: F.hardshrink(x, a), "softplus": lambda x, y, a: F.softplus(x, a),
    "clamp by an order": lambda x, y, a: F.hardtanh(x, -a, a),
    "large ints": lambda x, y, a: (100 * x).clamp(-int(64 * a) - 17, int(64 * a) + 17),
    "large whole floats": lambda x, y, a: torch.threshold(100 * x, int(64 * a) + 17.0, 0),
}


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ready", "_straight"):
        monkeypatch.setattr(pointwise, name, {})
    monkeypatch.setattr(lifted_numbers, "_constant_kernels", Counter())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_a_few_kernels_serve_all_numbers(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(40_000).to(dtype), torch.randn(40_000).to(dtype)
    numbers = [0.1 + k / 64 for k in range(40)]
    with monkeypatch.context() as patch:
        patch.setattr(pointwise.KernelPolicy, "allowed", False)
        wanted = [CASES[name](x, y, a) for a in numbers]
    until = time.monotonic() + 120
    tolerance = 1e-2 if dtype is torch.bfloat16 else 2e-6
    for _ in range(4):
        for number, expected in zip(numbers, wanted, strict=True):
            actual = CASES[name](x, y, number)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
            assert time.monotonic() < until
        time.sleep(0.05)
    assert len(pointwise._ready) <= 4 * (MAX_KERNELS_BY_NUMBERS + 1)


def test_small_whole_numbers_stay_constants() -> None:
    lifted = lift_call(max, (1.0, 0.5), (2, float("inf"), "word"), {"value": 0.25, "other": -0.0})
    assert lifted.numbers == (0.5, 0.25)
    assert lifted.pattern != lift_call(max, (2.0, 0.5), (2, float("inf"), "word"),
                                       {"value": 0.25, "other": -0.0}).pattern
    assert lifted.pattern != lift_call(max, (1.0, 0.5), (2, float("inf"), "word"),
                                       {"value": 0.25, "other": 0.0}).pattern


def test_powers_of_changing_numbers() -> None:
    x = torch.linspace(0.5, 2, 40_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for exponent in (1, 2, 3, 0.5, 1.7, 2.2, 2.3, 2.4, 2.5, 17, 18, 19, 20, 21):
                expected = x.double() ** exponent
                torch.testing.assert_close(x.pow(exponent), expected.float(), rtol=3e-6, atol=1e-6)
            time.sleep(0.3)


def test_numbers_of_closures_are_replaced_in_order() -> None:
    def build(a: float, b: float, c: float):
        def inner(x):
            return x * a + c

        return lambda x: inner(x) - b

    lifted, other = lift_closure(build(0.5, 2.0, 0.75)), lift_closure(build(0.1, 2.0, 0.2))
    assert lifted is not None and other is not None
    assert lifted.pattern == other.pattern
    assert sorted(lifted.numbers) == [0.5, 0.75]
    assert lifted.bind(other.numbers)(3.0) == build(0.1, 2.0, 0.2)(3.0)
    assert lift_closure(build(0.5, 3.0, 0.75)).pattern != lifted.pattern
    assert lift_closure(max) is None
