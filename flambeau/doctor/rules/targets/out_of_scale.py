"""Regression on numbers that are larger than the outputs by many orders of magnitude."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_RATIO = 1e4  # of the targets to the outputs
_TIMES = 24  # batches in which they are that far apart
_NUMBERS = 4096
_MIN_NUMBERS = 8
_MIN_REACHED = 0.01  # by outputs that start near 0


class TargetsOutOfScale(Rule):
    """Compares the size of predictions with that of targets, batch by batch."""

    id = "targets-not-scaled"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "the targets are thousands of times as large as the outputs and are never reached"
    why = (
        "A step moves an output by about the learning rate, so prices in dollars take millions of "
        "steps, and their squares overflow. Reported when the typical target is more than "
        f"{_RATIO:,.0f} times the typical output in each of {_TIMES} batches. Not reported if the "
        "outputs are scaled up before the loss."
    )
    fix = "train on (target - mean) / std, and scale predictions back"
    broken = """
net = nn.Linear(8, 1)
prices = 300_000 + 50_000 * t
optimizer = optim.Adam(net.parameters(), lr=1e-3)
for _ in range(30):
    loss = F.mse_loss(net(x), prices)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.mse_loss(net(x), prices)  # <-":
            "loss = F.mse_loss(net(x), (prices - 300_000) / 50_000)",
    })
    healthy = (edit(broken, {
        # The output is scaled back before the loss.
        "loss = F.mse_loss(net(x), prices)  # <-":
            "loss = F.l1_loss(300_000 + 50_000 * net(x), prices) / 50_000",
    }), edit(broken, {
        # Large targets, and steps to match.
        "loss = F.mse_loss(net(x), prices)  # <-": "loss = F.mse_loss(net(x), prices / 100)",
        "optimizer = optim.Adam(net.parameters(), lr=1e-3)":
            "optimizer = optim.Adam(net.parameters(), lr=10)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Spot | None, int] = {}

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name not in _LOSSES or not call.recorded or not isinstance(target, Tensor) \
                or target.requires_grad or target._array.size < _MIN_NUMBERS:
            return
        magnitude, reached = (float(np.median(np.abs(values.reshape(-1)[:_NUMBERS])))
                              for values in (target._array, call.values))
        if not magnitude > _RATIO * max(reached, _MIN_REACHED):
            self.times[call.spot] = -(1 << 30)  # it is near once: it can be
            return
        self.times[call.spot] = times = self.times.get(call.spot, 0) + 1
        if times == _TIMES:
            self.report(f"targets of about {magnitude:.3g} meet outputs of about {reached:.2g}",
                        call.spot, target=magnitude, output=reached, batches=times)
