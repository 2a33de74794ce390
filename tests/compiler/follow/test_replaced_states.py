"""An optimizer whose states are new tensors: a path that was not taken since writes to those."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.02),
}


def _train(optimizer_of, clear_at: int, options: dict | None) -> list[np.ndarray]:
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    optimizer, calls, mean = optimizer_of(net.parameters()), [0], [0.0]

    def step(x):
        if calls[0] % 2 == 0:
            optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        calls[0] += 1
        mean[0] = 0.9 * mean[0] + loss.item()
        return loss

    run = step if options is None else torch.compile(step, options=options)
    seen = []
    for call in range(12):
        if call == clear_at:
            optimizer.state.clear()
        run(torch.randn(6, 4))
        states = [x for state in optimizer.state.values() for x in state.values()]
        seen += [np.copy(x.detach().numpy()) for x in (*net.parameters(), *states)]
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("clear_at", range(3, 11))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_cleared_states(name, clear_at):
    options = {"mode": "now", "follow": True, "backend": "evaluate"}
    expected = _train(OPTIMIZERS[name], clear_at, None)
    actual = _train(OPTIMIZERS[name], clear_at, options)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
