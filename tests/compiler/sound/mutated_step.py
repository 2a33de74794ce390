"""A training step that reads state of many kinds, all of which test_mutations.py changes.

The test loads this file anew for each run, so that changes of classes and functions stay apart.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


@dataclasses.dataclass
class Options:
    scale: float = 0.5
    clip: float | None = 1.0
    sizes: tuple = (1.0, 2.0)
    table: dict = dataclasses.field(default_factory=lambda: {"a": 1.0, "b": [2.0, 3.0]})


class Mode(enum.Enum):
    FAST = 1.0
    SLOW = 2.0


class Base:
    gain = 1.0

    def factor(self):
        return self.gain + self.offset

    @property
    def offset(self):
        return self._offset


class Derived(Base):
    __slots__ = ("_offset", "extra")

    def __init__(self):
        self._offset, self.extra = 0.25, [1.0]

    def factor(self, more=0.5):
        return super().factor() + more + self.extra[0]


class Net(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)
        self.options, self.rate = options, 0.9

    def forward(self, x, *, power=1.0):
        x = torch.tanh(self.norm(self.first(x))) * self.options.scale * self.rate
        if self.options.clip is not None:
            x = x.clamp(-self.options.clip, self.options.clip)
        return self.last(x) * power * self.options.table["b"][1]


def world() -> tuple[Callable, list[Any]]:
    """A step, and what it reaches beside its arguments."""
    torch.manual_seed(0)
    options, derived, mode = Options(), Derived(), Mode.FAST
    net = Net(options)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5, weight_decay=0.01)
    array = np.array([1.0, 2.0])
    extras = types.SimpleNamespace(names={"x", "y"}, weights=[0.5, 0.25], part=None)
    extras.part = functools.partial(lambda a, b: a * b, 2.0)

    def helper(x, scale=1.5, *, shift=0.125):
        return x * scale + shift

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x, power=1.5), y) * helper(derived.factor())
        loss = loss + float(array[1]) * len(extras.names) + sum(extras.weights)
        if mode is Mode.FAST:
            loss = loss * extras.part(0.5)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [step, net, optimizer, options, derived, array, extras, helper]
