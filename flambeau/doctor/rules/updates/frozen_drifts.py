"""Frozen parameters that the optimizer still moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Update
from ...finding import Level
from ...programs import edit
from ..rule import Rule


class FrozenDrifts(Rule):
    """Compares frozen parameters before and after a step."""

    id = "frozen-drifts"
    level = Level.CERTAIN
    needs = ("on_step",)
    title = "the optimizer changes parameters with requires_grad=False"
    why = (
        "An optimizer skips parameters whose .grad is None, not frozen ones. A zero gradient is "
        "enough for momentum, weight decay and Adam's averages to continue."
    )
    fix = "set .grad of frozen parameters to None (zero_grad(set_to_none=True)), or leave them out"
    broken = """
body, head = nn.Linear(8, 16), nn.Linear(16, 3)
optimizer = optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
for step in range(8):
    if step == 2:
        body.requires_grad_(False)
    loss = F.cross_entropy(head(torch.relu(body(x))), y)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()  # <-
"""
    fixed = edit(broken, {
        "optimizer.zero_grad(set_to_none=False)": "optimizer.zero_grad()",
        "optimizer.step()  # <-": "optimizer.step()",
    })
    healthy = ("""
# Frozen parameters are in the optimizer, and have no gradient.
body, head = nn.Linear(8, 16).requires_grad_(False), nn.Linear(16, 3)
optimizer = optim.AdamW([*body.parameters(), *head.parameters()], lr=0.1, weight_decay=0.5)
for _ in range(4):
    loss = F.cross_entropy(head(torch.relu(body(x))), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A teacher that follows its student: changed by the program, not by the optimizer.
student, teacher = nn.Linear(8, 3), nn.Linear(8, 3).requires_grad_(False)
optimizer = optim.SGD([*student.parameters(), *teacher.parameters()], lr=0.1)
for _ in range(4):
    loss = F.mse_loss(student(x), teacher(x)) + F.cross_entropy(student(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(teacher.parameters(), student.parameters()):
            a.lerp_(b, 0.1)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.before: list[tuple[Any, np.ndarray]] = []

    def on_step(self, update: Update) -> None:
        self.before = []
        if update.watched:
            frozen = [p for p in update.params if not p.requires_grad and p._grad is not None]
            self.before = [(p, p._array.copy()) for p in frozen[:8]]

    def after_step(self, update: Update) -> None:
        changed = [(p, old) for p, old in self.before if not np.array_equal(p._array, old)]
        if not changed:
            return
        name = self.session.name_of(update.optimizer, "the optimizer")
        change = max(float(np.abs(p._array - old).max()) for p, old in changed)
        group = update.optimizer.param_groups[0]
        self.report(
            f"{name}.step() changes {self.session.parameter_names(p for p, _ in changed)}, which "
            "are frozen", update.spot, self.session.optimizers.get(update.optimizer),
            **{"largest change": change, "momentum": group.get("momentum", group.get("betas")),
               "weight decay": group.get("weight_decay", 0)},
        )
