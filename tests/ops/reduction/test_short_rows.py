"""Sums and means over many short rows or few columns come from kernels, which NumPy's cost per row
makes worth their call."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import eager_kernels
from flambeau.native.target.eager_costs import CALLS_BEFORE_USE, MAX_COUNTED_ROW_ELEMENTS
from flambeau.ops.native import rows


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_kernel_serves_short_rows(name: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = rows.run_row_kernel
    monkeypatch.setattr(rows, "run_row_kernel", lambda *args: (calls.append(args[2:]), run(*args)))
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32))
    expected = getattr(x.numpy().astype(np.float64), name)(dim)
    until = time.monotonic() + 120
    count = 0
    while not calls:
        y = getattr(x, name)(dim)
        count += 1
        assert time.monotonic() < until, "no kernel came"
        if count > CALLS_BEFORE_USE:
            time.sleep(0.002)
    assert calls[0] == (500, 4)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_few_rows_stay_with_numpy() -> None:
    assert not rows.is_worth_reducing(np.zeros((64, 32)))
    assert not rows.is_worth_reducing(np.zeros(8192))
    assert not rows.is_worth_reducing(np.zeros((500, 0)))
    assert rows.is_worth_reducing(np.zeros((500, 2)))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "norm"])
@pytest.mark.parametrize("shape", [(500, 4), (10, 50, 4)])
def test_a_fold_of_everything(name: str, shape: tuple[int, ...]) -> None:
    """Rows do not count there, even if the kernel that folds everything is ready."""
    function = getattr(torch, name)
    x = torch.from_numpy(np.random.default_rng(0).normal(1, 0.1, shape).astype(np.float32))
    expected = function(x.double()).item()
    large = torch.ones(MAX_COUNTED_ROW_ELEMENTS + 1)
    until = time.monotonic() + 5
    while not any(key[0] is eager_kernels.REDUCE_ALL for key in rows._ready) \
            and time.monotonic() < until:
        function(large)
        time.sleep(0.01)
    for _ in range(CALLS_BEFORE_USE + 3):
        assert function(x).item() == pytest.approx(expected, rel=1e-3)
