"""A gradient that gets other memory between calls is no longer the compiled program's: the step's
next gradient lies in new memory, as eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

MOVES: dict[str, Callable[[Any], Any]] = {
    "shared": lambda net: net[0].weight.grad.share_memory_(),
    "all shared twice": lambda net: (net.share_memory(), net.share_memory()),
    "data": lambda net: setattr(net[0].weight.grad, "data", torch.zeros(6, 4)),
    "set_": lambda net: net[0].weight.grad.set_(torch.zeros(6, 4)),
    "resized": lambda net: net[0].weight.grad.resize_(2, 3),
    "kept": lambda net: KEPT.append(net[0].weight.grad),
}
KEPT: list[Any] = []


def _run(move: Callable[[Any], Any], compiled: bool) -> list[Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    call = torch.compile(step, options={"mode": "now"}) if compiled else step
    seen = []
    for i in range(14):
        if i in (5, 9):
            move(net)
        seen.append(call(torch.randn(5, 4)).item())
        seen += [p.grad.tolist() for p in net.parameters()]
    return seen


@pytest.mark.parametrize("name", MOVES)
def test_the_next_gradient_is_that_of_the_eager_step(name: str) -> None:
    for actual, expected in zip(_run(MOVES[name], True), _run(MOVES[name], False), strict=True):
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected))
