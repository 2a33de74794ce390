"""A learning rate that a schedule has reduced to nothing."""

from __future__ import annotations

from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ...events import Update
from ...finding import Level
from ...places import Spot
from ...source import find_running_loops
from ..rule import Rule

_MULTIPLYING = ("StepLR", "MultiStepLR", "ExponentialLR", "MultiplicativeLR")
_LOST = 1e-4  # of its initial value
_MOST = 0.8  # share of the steps


class CollapsedLearningRate(Rule):
    """Counts steps of schedules that multiply, beside those of their optimizers."""

    id = "learning-rate-collapsed"
    level = Level.LIKELY
    needs = ("on_schedule",)
    title = (
        "a scheduler meant for epochs is stepped after every batch: the learning rate falls to "
        "nothing"
    )
    why = (
        "Reported for schedulers that multiply (StepLR, ExponentialLR, ...) when the rate is "
        f"below {_LOST:g} of its initial value and the scheduler was stepped as often as the "
        "optimizer, in a loop over batches. Not reported for schedules that end at zero by design."
    )
    fix = "scheduler.step() once per epoch, outside the loop over batches"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
for epoch in range(3):
    for xb, tb in zip(x.split(8), t.split(8)):
        loss = F.mse_loss(net(xb), tb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()  # <-
"""
    fixed = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.1)
for epoch in range(3):
    for xb, tb in zip(x.split(8), t.split(8)):
        loss = F.mse_loss(net(xb), tb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
"""
    healthy = ("""
# The whole data at once: an epoch is a step.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.6)
for epoch in range(25):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
""", """
# Down to zero by design, batch by batch.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 24)
for epoch in range(3):
    for xb, tb in zip(x.split(8), t.split(8)):
        optimizer.zero_grad()
        F.mse_loss(net(xb), tb).backward()
        optimizer.step()
        scheduler.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.steps: dict[int, int] = {}  # of optimizers
        self.schedule: dict[int, int] = {}  # of schedulers
        self.first: dict[int, float] = {}
        self.around: dict[int, set[tuple[str, int]]] = {}  # loops around constructors

    def after_step(self, update: Update) -> None:
        key = id(update.optimizer)
        self.steps[key] = self.steps.get(key, 0) + 1

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        self.around[id(scheduler)] = find_running_loops(find_user_frame(1))
        self.first[id(scheduler)] = float(scheduler.optimizer.param_groups[0]["lr"])

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        key = id(scheduler)
        self.schedule[key] = count = self.schedule.get(key, 0) + 1
        if type(scheduler).__name__ not in _MULTIPLYING or not self.first.get(key):
            return
        rate = float(scheduler.optimizer.param_groups[0]["lr"])
        steps = self.steps.get(id(scheduler.optimizer), 0)
        if rate > _LOST * self.first[key] or count < _MOST * steps or spot is None:
            return
        if len(find_running_loops(find_user_frame(1)) - self.around[key]) >= 2:
            self.report(
                f"{type(scheduler).__name__} is stepped after every batch: the learning rate is "
                f"{rate / self.first[key]:.1g} of its initial value", spot,
                **{"lr": [self.first[key], rate], "scheduler.step()": count,
                   "optimizer.step()": steps},
            )
