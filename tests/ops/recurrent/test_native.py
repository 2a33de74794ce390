"""Recurrent layers with all steps in one kernel, eagerly, beside the same in NumPy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime.background_jit import KernelPolicy
from flambeau.native.kernels.recurrent import has_narrow_panels
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.recurrent import native


def step(layer: Any, x: Any, states: list) -> list[np.ndarray]:
    """Results and gradients."""
    leaves = [x, *states]
    for v in [*leaves, *layer.parameters()]:
        v.grad = None
    y, last = layer(x, tuple(states) if len(states) > 1 else states[0])
    ends = last if isinstance(last, tuple) else (last,)
    ((y * y).sum() + sum((k + 1) * v.sum() for k, v in enumerate(ends))).backward()
    results = [y, *ends, *[v.grad for v in [*leaves, *layer.parameters()]]]
    return [v.detach().numpy() for v in results]


def until_kernels(run: Any, count: int) -> list[np.ndarray]:
    """What `run` gives once so many shapes have their kernels."""
    until = time.monotonic() + 120
    while True:
        actual = run()
        if len(native._runners) >= count:
            return run()
        assert time.monotonic() < until, actual and "no kernel came"
        time.sleep(0.002)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(native, "MIN_RECURRENT_MULTIPLICATIONS", 0)
    monkeypatch.setattr(native, "MIN_THREADED_RECURRENT_MULTIPLICATIONS", 0)
    monkeypatch.setattr(native, "_runners", {})
    monkeypatch.setattr(native._calls, "counts", {})
    before = POOL.threads()
    yield
    POOL.set_threads(before)


@pytest.mark.parametrize(("kind", "options"), [
    ("LSTM", {}), ("LSTM", {"bidirectional": True, "dtype": torch.float64}), ("GRU", {}),
    ("GRU", {"bidirectional": True, "bias": False}), ("RNN", {"bidirectional": True}),
    ("RNN", {"nonlinearity": "relu"}),
])
def test_layers(kind: str, options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths change under the same kernels."""
    POOL.set_threads(2)
    torch.manual_seed(0)
    both = 2 if "bidirectional" in options else 1
    layer = getattr(torch.nn, kind)(4, 17, **options)
    dtype = options.get("dtype")
    states = [torch.randn(both, 3, 17, dtype=dtype, requires_grad=True)
              for _ in range(2 if kind == "LSTM" else 1)]
    x = torch.randn(4, 3, 4, dtype=dtype, requires_grad=True)
    until_kernels(lambda: step(layer, x, states), 2 * both)
    shapes = len(native._calls.counts)
    for length in (4, 2, 9):
        x = torch.randn(length, 3, 4, dtype=dtype, requires_grad=True)
        actual = step(layer, x, states)
        with monkeypatch.context() as patch:
            patch.setattr(KernelPolicy, "allowed", False)
            wanted = step(layer, x, states)
        for a, b in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)
    assert len(native._calls.counts) == shapes


@pytest.mark.parametrize("batch", [1, 33])
def test_inference(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = torch.nn.LSTM(4, 20)
    x = torch.randn(5, batch, 4)

    @torch.no_grad()
    def run() -> list[np.ndarray]:
        y, (h, c) = layer(x)
        return [y.numpy(), h.numpy(), c.numpy()]

    result = until_kernels(run, 1)
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    for a, b in zip(result, run(), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("far", [0, 1 << 30])
def test_batches_of_other_sizes_take_the_kernels_there_are(
    far: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch's last batch, or an evaluation's, whether lines are asked for ahead or not."""
    monkeypatch.setattr(native, "MIN_PREFETCHED_GATE_BYTES", far)
    POOL.set_threads(2)
    layer = torch.nn.LSTM(4, 17)
    states = [torch.zeros(1, 37, 17, requires_grad=True) for _ in range(2)]
    x = torch.randn(5, 37, 4, requires_grad=True)
    until_kernels(lambda: step(layer, x, states), 2)
    forms = len(native._calls.counts)
    for batch in (39, 35):
        x = torch.randn(5, batch, 4, requires_grad=True)
        states = [torch.randn(1, batch, 17, requires_grad=True) for _ in range(2)]
        actual = step(layer, x, states)
        with monkeypatch.context() as patch:
            patch.setattr(KernelPolicy, "allowed", False)
            wanted = step(layer, x, states)
        for a, b in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)
    assert len(native._calls.counts) == forms


def test_gradcheck() -> None:
    layer = torch.nn.GRU(2, 3, dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    h = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    until_kernels(lambda: step(layer, x, [h]), 2)
    assert torch.autograd.gradcheck(lambda x, h: layer(x, h)[0], (x, h))


def test_what_has_no_kernels() -> None:
    """Packed sequences and projections go step by step."""
    layer = torch.nn.LSTM(4, 17, proj_size=3)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4), torch.tensor([3, 1]))
    for _ in range(3):
        layer(packed)
        layer(torch.randn(3, 2, 4))
    assert not native._calls.counts


def test_wide_layers_of_few_rows_go_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more than four megabytes of recurrent weights, where threads have few rows."""
    asked: list[int] = []
    monkeypatch.setattr(native, "_find_runner", lambda form: asked.append(form.width))
    net = torch.nn.RNN(3, 1040)
    row_count = 8 * POOL.threads()
    for rows in (1, row_count):
        net(torch.randn(2, rows, 3))
    assert asked == ([1040] if has_narrow_panels() else [])
