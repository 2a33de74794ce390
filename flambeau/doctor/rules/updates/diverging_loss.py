"""A loss that grows from step to step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_GROWTH = 100.0
_IN_A_ROW = 6
_MOVED = 0.02  # of the weights' length
_NUMBERS = 256  # of each weight


class DivergingLoss(Rule):
    """Follows the loss of each backward()."""

    id = "loss-diverges"
    level = Level.LIKELY
    needs = ("on_backward", "on_step")
    title = "the loss grows in every step: the learning rate is too large"
    why = (
        f"Reported when a positive loss grew {_IN_A_ROW} times in a row, to {_GROWTH:.0f} times "
        "its value, and a weight changed meanwhile. Not reported if the data changes, as with "
        "returns of longer and longer episodes."
    )
    fix = "a smaller learning rate, for example a tenth"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=5.0)  # <-
for _ in range(12):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.SGD(net.parameters(), lr=5.0)  # <-":
            "optimizer = optim.SGD(net.parameters(), lr=0.05)",
    })
    healthy = ("""
# A loss whose weight is raised on purpose.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=1e-4)
for step in range(12):
    loss = F.mse_loss(net(x), t) * 1.4**step
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Negative losses may fall without end.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.5)
for _ in range(12):
    loss = -net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.values: dict[Spot | None, list[float]] = {}
        self.last: Any = None
        self.start: dict[int, np.ndarray] = {}  # weights when the loss began to grow

    def on_backward(self, backward: Backward) -> None:
        value = backward.value
        if value is None or not backward.watched:
            return
        values = self.values.setdefault(backward.spot, [])
        if not values or not value > values[-1] or value <= 0:
            values.clear()
            self.start.clear()
        values.append(value)
        if len(values) > _IN_A_ROW and values[-1] > _GROWTH * values[0] > 0 \
                and math.isfinite(value) and self.last is not None and self._has_moved():
            group = self.last.param_groups[0]
            self.report("the loss grows in every step", self.session.optimizers.get(self.last),
                        backward.spot, lr=float(group.get("lr", 0)), loss=values[-4:])

    def on_step(self, update: Update) -> None:
        self.last = update.optimizer
        if not self.start:
            self.start = {id(p): _copy_numbers(p) for p in update.params[:8] if p._array.ndim > 1}

    def _has_moved(self) -> bool:
        """Whether any weight has changed noticeably."""
        params = [p for group in self.last.param_groups for p in group["params"]]
        pairs = [(_copy_numbers(p), self.start[id(p)]) for p in params if id(p) in self.start]
        return not pairs or any(
            np.linalg.norm(current - initial) > _MOVED * np.linalg.norm(initial)
            for current, initial in pairs)


def _copy_numbers(parameter: Any) -> np.ndarray:
    array: np.ndarray = parameter._array.reshape(-1)[:_NUMBERS].copy()
    return array
