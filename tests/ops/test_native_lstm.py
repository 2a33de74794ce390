"""An LSTM's steps in machine code beside the same in NumPy."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.eager import Policy
from flambeau.native.pool import POOL
from flambeau.ops import lstm_native


def step(layer, x, states) -> list[np.ndarray]:
    """Results and gradients."""
    given = [x, *states]
    for v in [*given, *layer.parameters()]:
        v.grad = None
    y, (h, c) = layer(x, tuple(states))
    ((y * y).sum() + (h * 2).sum() + c.sum()).backward()
    found = [y, h, c, *[v.grad for v in [*given, *layer.parameters()]]]
    return [v.detach().numpy() for v in found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("batch", "time_", "width", "both"), [
    (1, 1, 1, False), (3, 4, 17, False), (5, 3, 16, True), (2, 7, 33, True),
])  # fmt: skip
def test_layers(batch, time_, width, both, threads, dtype, monkeypatch) -> None:
    for name in ("LEAST", "_SHARED"):
        monkeypatch.setattr(lstm_native, name, 0)
    torch.manual_seed(0)
    layer = torch.nn.LSTM(4, width, bidirectional=both, dtype=dtype)
    x = torch.randn(time_, batch, 4, dtype=dtype, requires_grad=True)
    states = [torch.randn(2 if both else 1, batch, width, dtype=dtype, requires_grad=True)
              for _ in range(2)]  # fmt: skip
    before = POOL.threads()
    POOL.set_threads(threads)
    try:
        monkeypatch.setattr(Policy, "allowed", False)
        wanted = step(layer, x, states)
        monkeypatch.setattr(Policy, "allowed", True)
        until = time.monotonic() + 10
        kind = np.dtype(str(dtype).removeprefix("torch."))
        keys = [("lstm_step", kind), ("lstm_step_backward", kind, True)]
        while not all(key in lstm_native._ready for key in keys):
            step(layer, x, states)
            assert time.monotonic() < until, "no kernel came"
            time.sleep(0.002)
        found = step(layer, x, states)
    finally:
        POOL.set_threads(before)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)
