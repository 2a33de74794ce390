"""A schedule that does nothing: never stepped, or of another optimizer."""

from __future__ import annotations

import ast
from typing import Any

from ...events import Update
from ...finding import Level
from ...places import Spot, place_of
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_MIN_STEPS = 10  # of an optimizer


class UnusedScheduler(Rule):
    """Compares schedulers that were constructed with those that were stepped."""

    id = "scheduler-without-effect"
    level = Level.LIKELY
    needs = ("on_scheduler", "on_step")
    title = "a scheduler is created but never stepped, or belongs to an optimizer that is not used"
    why = (
        "Reported at the end if the optimizer has made at least 10 steps. Certain for a scheduler "
        "of an optimizer that never steps while another one does. A hint if the file steps a "
        "scheduler in a line that was not reached. Not reported for schedulers inside others "
        "(SequentialLR, ChainedScheduler)."
    )
    fix = "call scheduler.step(); create the scheduler for the optimizer that is used"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3)  # <-
for epoch in range(12):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3)  # <-":
            "scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3)",
        "optimizer.step()": "optimizer.step()\nscheduler.step()",
    })
    healthy = ("""
# Parts of a sequence: only the whole is stepped.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
warm = optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
rest = optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
scheduler = optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], [4])
for epoch in range(12):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    scheduler.step()
""", """
# A schedule for each epoch, and a training of less than that many steps.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(2):
    for xb, tb in zip(x.split(8), t.split(8)):
        optimizer.zero_grad()
        F.mse_loss(net(xb), tb).backward()
        optimizer.step()
    scheduler.step(1.0)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.constructors: dict[int, tuple[Any, Spot | None]] = {}
        self.stepped: set[int] = set()
        self.steps: dict[int, int] = {}

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        self.constructors[id(scheduler)] = scheduler, spot
        for inner in getattr(scheduler, "_schedulers", ()):
            self.constructors.pop(id(inner), None)

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        self.stepped.add(id(scheduler))

    def on_step(self, update: Update) -> None:
        key = id(update.optimizer)
        self.steps[key] = self.steps.get(key, 0) + 1

    def finish(self) -> None:
        if self.session.error is not None:
            return
        inner_ids = {id(inner) for outer, _ in self.constructors.values()
                     for inner in getattr(outer, "_schedulers", ())}
        for key, (scheduler, spot) in self.constructors.items():
            steps = self.steps.get(id(scheduler.optimizer), 0)
            name = type(scheduler).__name__
            if key in inner_ids:
                continue
            if key in self.stepped and not steps and not self.session.rested \
                    and max(self.steps.values(), default=0) >= _MIN_STEPS:
                self.report(f"{name} changes the rate of an optimizer that never steps", spot,
                            self.session.optimizers.get(scheduler.optimizer),
                            level=Level.CERTAIN)
            elif key not in self.stepped and steps >= _MIN_STEPS:
                self.report(f"{name} is created, but step() is never called", spot,
                            level=Level.HINT if _is_stepped_in(spot) else None,
                            **{"optimizer steps": steps})


def _is_stepped_in(spot: Spot | None) -> bool:
    """Whether the file of a spot steps a scheduler in a line that this run did not reach."""
    place = place_of(spot)
    tree = parse_file(place.file) if place is not None else None
    return tree is not None and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step" and "sched" in ast.unparse(node.func.value).lower()
        for node in ast.walk(tree))
