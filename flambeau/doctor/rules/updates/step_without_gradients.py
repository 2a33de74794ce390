"""Updates that find no gradient."""

from __future__ import annotations

from typing import Any

from ...events import Backward, ModuleCall, Update, is_zero
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


def has_gradient(optimizer: Any) -> bool:
    """Whether one of the first parameters of an optimizer has a gradient that is not zero."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    return any(not is_zero(p._grad) for p in params[:6] + params[-2:])


class StepWithoutGradients(Rule):
    """Follows gradients from backward to step, and who clears them on the way."""

    id = "step-without-gradients"
    level = Level.CERTAIN
    needs = ("on_step",)
    title = "step() finds no gradients: they were cleared after backward(), or never computed"
    why = (
        "zero_grad() between backward() and step() discards the gradients; without backward() "
        "there are none. Judged after the second time in a row."
    )
    fix = "the order is zero_grad(), backward(), step()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    loss.backward()
    optimizer.zero_grad()  # <-
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.mse_loss(net(x), t)": "loss = F.mse_loss(net(x), t)\noptimizer.zero_grad()",
        "optimizer.zero_grad()  # <-": "",
    })
    healthy = ("""
# Several optimizers step, each in its turn with gradients.
a, b = nn.Linear(8, 1), nn.Linear(8, 1)
optimizers = [optim.SGD(a.parameters(), lr=0.01), optim.SGD(b.parameters(), lr=0.01)]
for step in range(8):
    net = (a, b)[step % 2]
    for optimizer in optimizers:
        optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    for optimizer in optimizers:
        optimizer.step()
""", """
# Gradients that are set by hand.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    grads = torch.autograd.grad(F.mse_loss(net(x), t), list(net.parameters()))
    for parameter, grad in zip(net.parameters(), grads):
        parameter.grad = grad
    optimizer.step()
    optimizer.zero_grad()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.had: dict[int, Spot | None] = {}  # by optimizer: where backward gave it gradients
        self.cleared: dict[int, Spot | None] = {}  # and where these were cleared since
        self.times: dict[int, int] = {}
        self.ever: set[int] = set()
        self.forwards = 0

    def on_call(self, call: ModuleCall) -> None:
        self.forwards += call.recorded

    def on_backward(self, backward: Backward) -> None:
        self.cleared.clear()  # what was cleared before this pass is not what it gives

    def after_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for optimizer in list(self.session.optimizers):
            if has_gradient(optimizer):
                self.had[id(optimizer)] = backward.spot

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        for optimizer in list(self.session.optimizers):
            if id(optimizer) in self.had and (owner is optimizer or hasattr(owner, "parameters")):
                self.cleared[id(optimizer)] = spot

    def on_step(self, update: Update) -> None:
        if not update.watched:
            return
        key = id(update.optimizer)
        if any(not is_zero(p._grad) for p in update.params):
            self.times[key] = 0
            self.ever.add(key)
            self.had.pop(key, None)
            self.cleared.pop(key, None)
            return
        cleared, backward = self.cleared.pop(key, None), self.had.pop(key, None)
        name = self.session.name_of(update.optimizer, "the optimizer")
        if cleared is not None and backward is not None:
            self.times[key] = self.times.get(key, 0) + 1
            if self.times[key] >= 2:
                self.report(f"zero_grad() clears the gradients before {name}.step() can use them",
                            cleared, update.spot, backward)
        elif update.number >= 3 and key not in self.ever and self.forwards >= 3 \
                and not self.session.clock.passes:
            self.report(f"{name}.step() was called {update.number} times, backward() never",
                        update.spot, fix="loss.backward() before step()")
