"""Batch normalization that evaluates with the statistics of its constructor."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...events import ModuleCall, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from ..state.average_forgets import find_averaging


class StatisticsNeverFilled(Rule):
    """Looks at the running statistics of trained layers that evaluate."""

    id = "statistics-never-filled"
    level = Level.LIKELY
    needs = ("on_layer", "on_step")
    title = "a trained batch norm evaluates with mean 0 and variance 1: it never saw data"
    why = (
        "The running mean and variance are buffers, not parameters: an average or copy of "
        "parameters() misses them. Reported when a layer whose weight or bias differs from its "
        "initial value evaluates with untouched statistics, in a program that trains another "
        "layer of its size. Not reported before training, for statistics that were loaded or "
        "folded into the weights of a program that trains none, or for layers without statistics."
    )
    fix = "copy the buffers too: for a, b in zip(average.buffers(), net.buffers()): a.copy_(b)"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
average = copy.deepcopy(net).eval().requires_grad_(False)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    for mean, new in zip(average.parameters(), net.parameters()):
        mean.lerp_(new.detach(), 0.1)  # <-
with torch.no_grad():
    error = F.mse_loss(average(x), t)
"""
    fixed = edit(broken, {
        "mean.lerp_(new.detach(), 0.1)  # <-": "mean.lerp_(new.detach(), 0.1)",
        "with torch.no_grad():": "for mean, new in zip(average.buffers(), net.buffers()):\n"
                                 "    mean.copy_(new)\nwith torch.no_grad():",
    })
    healthy = ("""
# The network before its training, for comparison.
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).eval()
with torch.no_grad():
    before = F.mse_loss(net(x), t)
net.train()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    after = F.mse_loss(net(x), t)
""", """
# The statistics of an average are measured at the end.
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
average = optim.swa_utils.AveragedModel(net)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    average.update_parameters(net)
optim.swa_utils.update_bn([x], average)
average.eval()
with torch.no_grad():
    error = F.mse_loss(average(x), t)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.kind = importlib.import_module("flambeau.nn.modules.batchnorm")._BatchNorm
        self.trained: set[int] = set()  # numbers of features of layers that train
        self.step: Spot | None = None

    def on_step(self, update: Update) -> None:
        self.step = update.spot

    def on_layer(self, call: ModuleCall) -> None:
        layer = call.module
        if not isinstance(layer, self.kind) or layer.running_mean is None or layer.weight is None:
            return
        if layer.training:
            if call.recorded:
                self.trained.add(layer.num_features)
        elif layer.num_features in self.trained and _is_fresh(layer) and (
            np.any(layer.weight._array != 1) or np.any(layer.bias._array)
        ):
            average = id(layer.weight) not in self.session.optimized
            self.report("a trained batch norm evaluates with a mean of 0 and a variance of 1",
                        find_averaging(self.step) if average else None, call.spot,
                        self.session.built_at.get(layer), features=layer.num_features)


def _is_fresh(layer: Any) -> bool:
    """Whether the statistics are those of the constructor."""
    tracked = layer.num_batches_tracked
    return (tracked is None or not int(tracked)) and not np.any(layer.running_mean._array) \
        and bool(np.all(layer.running_var._array == 1))
