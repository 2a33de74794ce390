"""Accumulated gradients that are cleared before the step."""

from __future__ import annotations

from typing import Any

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .step_without_gradients import has_gradient

_MANY = 6  # passes a step: then two steps suffice


class DiscardedGradients(Rule):
    """Counts backward passes whose gradients are cleared unread, between two steps."""

    id = "gradients-discarded"
    level = Level.LIKELY
    needs = ("on_step", "on_zero_grad")
    title = "zero_grad() is called at each of several backward passes that should form one step"
    why = (
        "Only the last pass's gradients reach the step. Not reported if the program reads .grad "
        "in between, if gradients are clipped, or if the discarded gradients come from another "
        "backward() than the used ones (as a generator's do in a discriminator)."
    )
    fix = "call zero_grad() only right after step()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for step in range(20):
    loss = F.mse_loss(net(x), t) / 4
    optimizer.zero_grad()  # <-
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer.zero_grad()  # <-": "",
        "optimizer.step()": "optimizer.step()\noptimizer.zero_grad()",
    })
    healthy = ("""
# The gradients of each loss are stored, and then put together.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(6):
    stored = []
    for loss in (lambda: F.mse_loss(net(x), t), lambda: net(x).pow(2).mean()):
        optimizer.zero_grad()
        loss().backward()
        stored.append([p.grad.clone() for p in net.parameters()])
    for p, a, b in zip(net.parameters(), *stored):
        p.grad = a + b
    optimizer.step()
""", """
# The attack needs the input's gradient only.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(6):
    image = x.clone().requires_grad_()
    F.cross_entropy(net(image), y).backward()
    attacked = (image + 0.1 * image.grad.sign()).detach()
    optimizer.zero_grad()
    F.cross_entropy(net(attacked), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.source: dict[int, Spot | None] = {}  # by optimizer: whose gradients it has
        self.discarded: dict[int, list[tuple[Spot | None, Spot | None]]] = {}
        self.times: dict[int, int] = {}
        self.read = False
        self.stepping = False  # a closure is at work

    def on_grad_read(self, tensor: Any) -> None:
        self.read = True

    def on_clip(self, parameters: list[Any], spot: Spot | None, limit: float) -> None:
        self.read = True

    def after_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        self.read = False
        for optimizer in list(self.session.optimizers):
            if has_gradient(optimizer):
                self.source[id(optimizer)] = backward.spot

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        key = id(owner)
        source = self.source.pop(key, None)
        if source is not None and not self.read and not self.stepping and self.session.watching:
            self.discarded.setdefault(key, []).append((source, spot))

    def after_step(self, update: Update) -> None:
        self.stepping = False
        self.source.clear()

    def on_step(self, update: Update) -> None:
        key = id(update.optimizer)
        source, discarded = self.source.pop(key, None), self.discarded.pop(key, [])
        self.discarded.clear()  # another optimizer's turn discards these on purpose
        self.stepping = True
        repeated = [entry for entry in discarded if entry[0] == source and source is not None]
        if not update.watched or not repeated:
            self.times[key] = 0
            return
        self.times[key] = self.times.get(key, 0) + 1
        if self.times[key] >= (2 if len(repeated) > _MANY else 3):
            self.report("zero_grad() discards gradients that no step has used",
                        repeated[0][1], update.spot, source,
                        **{"backward passes a step": len(repeated) + 1, "lost": len(repeated)})
