"""Attention with machine code between its products."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import eager_kernels
from flambeau.native.runtime import fast_call
from flambeau.native.runtime.background_jit import KernelPolicy
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.attention import native

F = torch.nn.functional


def results(q, k, v, causal: bool) -> list[np.ndarray]:
    for x in (q, k, v):
        x.grad = None
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    (y * y).sum().backward()
    return [x.detach().numpy() for x in (y, q.grad, k.grad, v.grad)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "rows", "columns"), [
    ((), 1, 1), ((2, 3), 17, 17), ((2,), 5, 33), ((3,), 33, 16),
])
def test_agrees(batch, rows, columns, dtype, causal, threads, monkeypatch) -> None:
    monkeypatch.setattr(native, "MAX_NUMPY_ATTENTION_SCORES", 0)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    torch.manual_seed(0)
    q, k, v = (torch.randn(*batch, n, 4, dtype=dtype, requires_grad=True)
               for n in (rows, columns, columns))
    before = POOL.threads()
    POOL.set_threads(threads)
    try:
        monkeypatch.setattr(KernelPolicy, "allowed", False)
        wanted = results(q, k, v, causal)
        monkeypatch.setattr(KernelPolicy, "allowed", True)
        until = time.monotonic() + 120
        key = (np.dtype(str(dtype).removeprefix("torch.")), causal)
        while eager_kernels.ATTENTION_PROBABILITIES.address(*key) is None:
            results(q, k, v, causal)
            assert time.monotonic() < until, "no kernel came"
            time.sleep(0.002)
        actual = results(q, k, v, causal)
    finally:
        POOL.set_threads(before)
    for a, b in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize(("part", "threads", "call_count"), [
    (1, 2, 5), (17 * 17 * 3, 2, 5), (17 * 17 * 3, 8, 3), (1 << 20, 2, 1),
])
def test_without_gradients_some_of_the_batch_at_a_time(
    part, threads, call_count, monkeypatch
) -> None:
    monkeypatch.setattr(native, "MAX_NUMPY_ATTENTION_SCORES", 0)
    monkeypatch.setattr(POOL, "count", threads)
    monkeypatch.setattr(native, "SCORES_PER_BATCH_BLOCK", part)
    torch.manual_seed(0)
    q, k, v = (torch.randn(5, 3, 17, 8) for _ in range(3))
    monkeypatch.setattr(KernelPolicy, "allowed", False)
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    monkeypatch.setattr(KernelPolicy, "allowed", True)
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    calls = []
    real = native.call_kernel
    monkeypatch.setattr(native, "call_kernel", lambda *a: (calls.append(a), real(*a)))
    actual = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert len(calls) == call_count
    torch.testing.assert_close(actual, wanted)
