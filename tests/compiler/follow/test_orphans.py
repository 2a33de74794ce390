"""What the program has replaced is freed by the next followed call, as in eager mode; what it will
use again keeps its programs."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

import flambeau as torch
from flambeau import nn

_FOLLOWED = {"mode": "now", "follow": True, "backend": "evaluate"}


class _Training:
    """A model and its optimizer, which a followed step finds in attributes."""

    def __init__(self, kind: type) -> None:
        self.kind, self.times = kind, []
        self.start_over()

    def start_over(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
        self.optimizer = self.kind(self.net.parameters(), lr=0.1)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.times.append(time.time())
        return loss

    def refer(self) -> list[weakref.ref]:
        states = self.optimizer.state[self.net[0].weight].values()
        tensors = [x for x in states if isinstance(x, torch.Tensor)]
        return [*map(weakref.ref, [self.net, self.net[0].weight, self.optimizer, *tensors])]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("before", [1, 2, 3, 8])
def test_replaced_objects_are_freed_by_the_next_call(kind, before):
    training = _Training(kind)
    step = torch.compile(training.step, options=_FOLLOWED)
    for _ in range(before):
        step(torch.randn(5, 4))
    references = training.refer()
    training.start_over()
    step(torch.randn(5, 4))
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_objects_in_use_keep_their_programs():
    trainings = [_Training(torch.optim.SGD) for _ in range(2)]
    now, times = [trainings[0]], []

    def step(x):
        times.append(time.time())
        return now[0].step(x)

    compiled = torch.compile(step, options=_FOLLOWED)
    for call in range(24):
        now[0] = trainings[call // 2 % 2]
        compiled(torch.randn(5, 4))
    followed = compiled._fallback.followed
    assert len(followed.programs) == 2
    assert all(program.calls > 6 for program in followed.programs)
