"""Scaled gradients that are used as if they were not."""

from __future__ import annotations

from typing import Any

from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class ScaledGradients(Rule):
    """Follows a GradScaler from scale() to unscale_()."""

    id = "scaled-gradients-used"
    level = Level.CERTAIN
    needs = ("on_unscale",)
    title = "gradients are clipped or used while they are still multiplied by the scaler's scale"
    why = (
        "Between scaler.scale(loss).backward() and scaler.unscale_(optimizer) or scaler.step, "
        "gradients are too large by the scale (65536 initially)."
    )
    fix = (
        "scaler.unscale_(optimizer) before clipping; scaler.step(optimizer) instead of "
        "optimizer.step()"
    )
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    optimizer.zero_grad()
    scaler.scale(F.mse_loss(net(x), t)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <-
    scaler.step(optimizer)
    scaler.update()
"""
    fixed = edit(broken, {
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <-":
            "scaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    })
    healthy = ("""
# A scaler that is turned off.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for _ in range(3):
    optimizer.zero_grad()
    scaler.scale(F.mse_loss(net(x), t)).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""", """
# Two optimizers, both unscaled before anything is clipped.
a, b = nn.Linear(8, 8), nn.Linear(8, 1)
first, second = optim.SGD(a.parameters(), lr=0.1), optim.SGD(b.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(3):
    for optimizer in (first, second):
        optimizer.zero_grad()
    scaler.scale(F.mse_loss(b(a(x)), t)).backward()
    for optimizer in (first, second):
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_([*a.parameters(), *b.parameters()], 1.0)
    for optimizer in (first, second):
        scaler.step(optimizer)
    scaler.update()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.scale: tuple[float, Spot | None] | None = None  # of the loss that was scaled last
        self.unscaled: set[int] = set()

    def on_unscale(self, scaler: Any, optimizer: Any, spot: Spot | None) -> None:
        if not scaler.is_enabled():
            return
        if optimizer is None:
            self.scale, self.unscaled = (float(scaler.get_scale()), spot), set()
        else:
            self.unscaled.update(id(p) for g in optimizer.param_groups for p in g["params"])

    def on_clip(self, parameters: list[Any], spot: Spot | None, limit: float) -> None:
        if self._is_still_scaled(parameters):
            assert self.scale is not None
            self.report("gradients are clipped before scaler.unscale_()", spot, self.scale[1],
                        scale=self.scale[0])

    def on_step(self, update: Update) -> None:
        if self._is_still_scaled(update.params):
            assert self.scale is not None
            self.report("optimizer.step() uses gradients that are still scaled", update.spot,
                        self.scale[1], scale=self.scale[0],
                        fix="scaler.step(optimizer), then scaler.update()")

    def _is_still_scaled(self, parameters: list[Any]) -> bool:
        graded = [p for p in parameters if p._grad is not None]
        return (
            self.scale is not None and self.scale[0] != 1 and bool(graded)
            and not any(id(p) in self.unscaled for p in graded)
        )
