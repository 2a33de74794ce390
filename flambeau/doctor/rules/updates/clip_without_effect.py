"""Gradients clipped before they are there, after they were used, or of no parameters."""

from __future__ import annotations

from typing import Any

from ...events import Backward, Update, is_zero
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class ClipWithoutEffect(Rule):
    """Looks at the gradients that are clipped, and at what happened since the last step."""

    id = "clip-without-effect"
    level = Level.CERTAIN
    needs = ("on_clip",)
    title = "gradients are clipped before backward() or after step(): the update is not clipped"
    why = (
        "Clipping changes .grad, so it must come between backward() and step(). An exhausted "
        "iterator of parameters, such as one that an optimizer consumed, clips nothing."
    )
    fix = "the order is zero_grad(), backward(), clip_grad_norm_(), step()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <-
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <-": "",
        "loss.backward()": "loss.backward()\nnn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    })
    healthy = ("""
# Clipped at each of the backward passes that make one update.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for step in range(8):
    F.mse_loss(net(x), t).backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.5)
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
""", """
# The norm is only measured, with a limit that clips nothing, after the step.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    norm = nn.utils.clip_grad_norm_(net.parameters(), float("inf"))
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.fresh = False  # a backward pass ran since the last step
        self.times: dict[str, int] = {}
        self.step: Spot | None = None
        self.backward: Spot | None = None
        self.used: set[int] = set()

    def on_backward(self, backward: Backward) -> None:
        self.fresh, self.backward = True, backward.spot

    def after_step(self, update: Update) -> None:
        self.fresh, self.step = False, update.spot
        self.used = {id(p._grad) for p in update.params[:8] if p._grad is not None}

    def on_clip(self, parameters: list[Any], spot: Spot | None, limit: float) -> None:
        if not parameters:
            self._count("nothing", spot)
            return
        grads = [p._grad for p in parameters[:8]]
        if limit == float("inf") or not self.session.clock.passes:
            if not self.fresh and self.session.clock.passes == 0 and limit != float("inf"):
                self.times["before"] = 1
            return
        is_empty = all(is_zero(g) for g in grads)
        if self.fresh and not is_empty:
            self.times.clear()
            return
        timing = "before" if is_empty else "after"
        if timing == "after" and not all(id(g) in self.used for g in grads if g is not None):
            return
        self._count(timing, spot)

    def _count(self, timing: str, spot: Spot | None) -> None:
        """Count a call without effect; report the third of a kind."""
        times = self.times[timing] = self.times.get(timing, 0) + 1
        if times < 3:
            return
        if timing == "nothing":
            self.report("clip_grad_* gets no parameters: the iterator is exhausted",
                        spot, times=times, fix="params = list(params) before creating the "
                                               "optimizer")
        elif timing == "before":
            self.report("clip_grad_* is called before backward(): there are no gradients yet",
                        spot, self.backward, times=times)
        else:
            self.report("clip_grad_* is called after step(): its gradients were used unclipped",
                        spot, self.step, times=times)
