"""A schedule over all batches that is stepped once an epoch."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_HORIZONS = ("total_steps", "T_max", "total_iters")
_MAX_STEPS = 4096  # that are remembered


class CountsBatches(Rule):
    """Compares a schedule's length with the numbers of its steps and of its optimizer's."""

    id = "schedule-counts-batches"
    level = Level.LIKELY
    needs = ("on_schedule", "on_step")
    title = (
        "a schedule as long as the number of batches is stepped once per epoch: it barely starts"
    )
    why = (
        "A schedule of epochs * len(loader) steps must be stepped after each batch; stepped once "
        "per epoch, its warm-up lasts the whole training. Reported at the end if its length is "
        "the number of optimizer steps and every scheduler step follows the same number of "
        "optimizer steps, more than one. Not reported for schedules planned for more epochs than "
        "were run."
    )
    fix = "scheduler.step() after each optimizer.step(), or total_steps=epochs"
    broken = """
net, epochs = nn.Linear(8, 3), 4
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=epochs, steps_per_epoch=8)
for epoch in range(epochs):
    for xb, yb in zip(x.split(8), y.split(8)):
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
    scheduler.step()  # <-
"""
    fixed = edit(broken, {
        "optimizer.step()": "optimizer.step()\nscheduler.step()", "scheduler.step()  # <-": "",
    })
    healthy = (edit(broken, {
        # Ended early: the schedule was for ten epochs.
        "scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=epochs, "
        "steps_per_epoch=8)": "scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)",
        "scheduler.step()  # <-": "scheduler.step()",
    }), edit(broken, {
        # One epoch of one batch each.
        "for xb, yb in zip(x.split(8), y.split(8)):": "for xb, yb in [(x, y)] * 8:",
        "optimizer.step()": "optimizer.step()\nscheduler.step()", "scheduler.step()  # <-": "",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.at: dict[int, tuple[Any, Spot | None, list[int]]] = {}  # by scheduler

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        entry = self.at.setdefault(id(scheduler), (scheduler, spot, []))
        if len(entry[2]) < _MAX_STEPS:
            entry[2].append(self.session.step_numbers.get(scheduler.optimizer, 0))

    def finish(self) -> None:
        if self.session.error is not None or self.session.rested and self.session.compiled:
            return  # a program's updates are not counted
        for scheduler, spot, updates in self.at.values():
            length = next((getattr(scheduler, name) for name in _HORIZONS
                           if isinstance(getattr(scheduler, name, None), int)), 0)
            steps = self.session.step_numbers.get(scheduler.optimizer, 0)
            interval = updates[0]
            is_regular = all(b - a == interval for a, b in zip(updates, updates[1:], strict=False))
            if interval > 1 and is_regular and len(updates) > 1 and abs(length - steps) < interval \
                    and steps - updates[-1] < interval:
                self.report(f"{type(scheduler).__name__} is to take {length} steps and took "
                            f"{len(updates)}", spot,
                            **{"optimizer steps": steps, "between two": interval})
