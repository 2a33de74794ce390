"""A followed step that gives tensors other memory (`ema.data = 0.9 * ema.data + ...`) has programs:
the memory of such a tensor is an input, and the assignment does not end a segment.
"""

from __future__ import annotations

import copy
import gc
import itertools
import weakref
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compiler.follow.moving_tensors import MovingTensors


def _average(net: Any, average: Any) -> None:
    for new, old in zip(net.parameters(), average.parameters(), strict=True):
        before, now = old.data, new.data
        old.data = before * 0.75 + now * 0.25


def _train(compiled: bool, calls: int = 24) -> tuple[list[Any], Any]:
    """Train a network next to a moving average of it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    average = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) - average(x).detach() + 1).square().mean()
        loss.backward()
        optimizer.step()
        _average(net, average)
        return loss.detach()

    call = torch.compile(step, options={"mode": "now", "follow": True}) if compiled else step
    values, snapshots = [], []
    for i in range(calls):
        values.append(call(torch.randn(4, 3)).item())
        if i == 14:
            snapshots += [average[0].weight.data, average[2].bias.detach()]
    values += [p.tolist() for p in (*average.parameters(), *snapshots)]
    values += [p._version for p in average.parameters()]
    return values, call


def test_a_moving_average_in_new_memory_has_one_program() -> None:
    (actual, call), (expected, _) = _train(True), _train(False)
    for a, b in zip(actual, expected, strict=True):
        if isinstance(a, list):
            assert torch.tensor(a).flatten().tolist() == pytest.approx(
                torch.tensor(b).flatten().tolist(), rel=1e-4, abs=1e-6)
        else:
            assert a == pytest.approx(b, rel=1e-4)
    assert "stays eager" not in call.explain()
    followed = call._fallback.followed
    assert max(program.calls for program in followed.programs) >= 15, call.explain()
    assert followed.built <= 3, call.explain()  # not one for each memory


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_trained_tensor_that_moves(momentum: float) -> None:
    def run(compiled: bool) -> list[Any]:
        w = nn.Parameter(torch.ones(3))
        optimizer, names = torch.optim.SGD([w], 0.1, momentum=momentum), itertools.cycle("ab")

        def step(x: Any) -> Any:
            next(names)
            optimizer.zero_grad()
            loss = (x * w).square().mean()
            loss.backward()
            optimizer.step()
            w.data = w.data.clamp(-0.5, 0.7)
            return loss.detach()

        call = torch.compile(step, options={"mode": "now", "follow": True}) if compiled else step
        torch.manual_seed(0)
        values = []
        for i in range(16):
            if i == 9:
                w.data = torch.full((3,), 0.25)
            values += [call(torch.randn(4, 3)).item(), *w.tolist(), w._version]
        return values

    assert run(True) == pytest.approx(run(False), rel=1e-4)


def test_the_set_does_not_keep_tensors_alive() -> None:
    moving, tensor = MovingTensors(), torch.ones(2)
    moving.add(tensor)
    moving.add(tensor)
    assert [t is tensor for t in moving.iterate()] == [True]
    reference = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert reference() is None
    assert not list(moving.iterate()) and not moving.references
