"""Gradients accumulated over several followed calls: each kind of call has one path."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import flambeau as torch


@pytest.mark.parametrize("set_to_none", [True, False])
def test_each_kind_of_call_is_recorded_once(set_to_none: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    twin.load_state_dict(model.state_dict())
    batches = torch.randn(4, 16, 4)

    def make(net: Any) -> Any:
        optimizer, count = torch.optim.Adam(net.parameters(), lr=0.01), itertools.count()

        def step() -> Any:
            i = next(count) % 4
            loss = net(batches[i]).square().mean()
            loss.backward()
            if i == 3:
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
            return loss

        return step

    call = torch.compile(make(model), options={"mode": "now", "follow": True})
    eager = make(twin)
    for _ in range(40):
        torch.testing.assert_close(call(), eager())
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert len(call._fallback.followed.programs) <= 6
