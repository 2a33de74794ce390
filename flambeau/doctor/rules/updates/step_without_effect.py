"""Updates that change no parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Update, is_zero
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 8
_MAX_COMPARED_PARAMETERS = 4


class StepWithoutEffect(Rule):
    """Compares parameters before and after each of the first updates."""

    id = "step-changes-nothing"
    level = Level.LIKELY
    needs = ("on_step", "after_step")
    title = "the optimizer steps with gradients, but no parameter changes"
    why = (
        "A learning rate of 0, from a warm-up with integer division or a schedule that starts at "
        f"factor 0 and is stepped per epoch. Reported when all of the first {_STEPS} updates with "
        "gradients leave every parameter unchanged. Not reported for a first step at 0, for "
        "groups with a rate of 0 next to others, or once anything has changed."
    )
    fix = "start the warm-up above 0: min(1.0, (step + 1) / warmup)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
warm = lambda step: min(1, step // 100)  # <-
scheduler = optim.lr_scheduler.LambdaLR(optimizer, warm)
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    scheduler.step()
"""
    fixed = edit(broken, {
        "warm = lambda step: min(1, step // 100)  # <-":
            "warm = lambda step: min(1.0, (step + 1) / 100)",
    })
    healthy = ("""
# The first step of a warm-up has a rate of 0.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 4))
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    scheduler.step()
""", """
# The body rests at a rate of 0, beside a head that learns.
body, head = nn.Linear(8, 8), nn.Linear(8, 1)
optimizer = optim.SGD([
    {"params": body.parameters(), "lr": 0.0}, {"params": head.parameters(), "lr": 0.1},
])
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(head(body(x)), t).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.still: dict[int, int] = {}  # by optimizer: updates without effect; -1 once it has one
        self.before: list[tuple[Any, np.ndarray]] = []
        self.schedules: dict[int, tuple[Any, Spot | None]] = {}  # by optimizer

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        self.schedules[id(getattr(scheduler, "optimizer", None))] = scheduler, spot

    def on_step(self, update: Update) -> None:
        self.before = []
        if update.number > 2 * _STEPS or self.still.get(id(update.optimizer), 0) < 0:
            return
        graded = [p for p in update.params if not is_zero(p._grad)]
        if any(group["lr"] for group in update.optimizer.param_groups if "lr" in group):
            self.still[id(update.optimizer)] = -1
            return
        self.before = [(p, p._array.copy()) for p in graded[:_MAX_COMPARED_PARAMETERS]]

    def after_step(self, update: Update) -> None:
        if not self.before:
            return
        is_unchanged = all(np.array_equal(p._array, values) for p, values in self.before)
        key = id(update.optimizer)
        self.still[key] = self.still.get(key, 0) + 1 if is_unchanged else -1
        if self.still[key] >= _STEPS:
            scheduler, spot = self.schedules.get(key, (None, None))
            functions = getattr(scheduler, "lr_lambdas", None) or ()
            codes = [f.__code__ for f in functions if hasattr(f, "__code__")]
            self.report("the optimizer's steps change no parameter: its learning rate is 0",
                        *(Place(c.co_filename, c.co_firstlineno, c.co_qualname) for c in codes[:1]),
                        spot, self.session.optimizers.get(update.optimizer), update.spot,
                        steps=self.still[key])
