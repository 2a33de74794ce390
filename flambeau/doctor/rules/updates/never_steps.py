"""An optimizer that is given gradients and never steps."""

from __future__ import annotations

from typing import Any

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .step_without_gradients import has_gradient

_PASSES = 10


class NeverSteps(Rule):
    """Compares backward passes with steps, at the end."""

    id = "optimizer-never-steps"
    level = Level.LIKELY
    needs = ("on_optimizer", "on_backward")
    title = "gradients are computed and cleared, but their optimizer's step() is never called"
    why = (
        f"Reported at the end when the parameters of an optimizer had gradients after {_PASSES} "
        "backward passes, it cleared them itself, and no step followed. Not reported if the "
        "parameters changed without it."
    )
    fix = "optimizer.step() after backward()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(12):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()  # <-
"""
    fixed = edit(broken, {
        "loss.backward()  # <-": "loss.backward()\noptimizer.step()",
    })
    healthy = ("""
# The update is written out; the optimizer only clears the gradients.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(12):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter -= 0.01 * parameter.grad
""", """
# Gradients are gathered over the whole data, and used once.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
optimizer.zero_grad()
for xb, tb in zip(x.split(4), t.split(4)):
    (F.mse_loss(net(xb), tb) / 16).backward()
optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.passes: dict[int, int] = {}
        self.backward: dict[int, Spot | None] = {}
        self.cleared: dict[int, int] = {}
        self.first: dict[int, tuple[Any, Any]] = {}  # a parameter, and its numbers at first
        self.stepped: set[int] = set()
        self.optimizers: dict[int, Any] = {}  # which may be gone when the program is over

    def after_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for optimizer in list(self.session.optimizers):
            key = id(optimizer)
            if key not in self.stepped and has_gradient(optimizer):
                self.passes[key] = self.passes.get(key, 0) + 1
                self.backward[key] = backward.spot
                self.optimizers[key] = optimizer
                if key not in self.first:
                    parameter = optimizer.param_groups[0]["params"][0]
                    self.first[key] = parameter, parameter._array.copy()

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        self.cleared[id(owner)] = self.cleared.get(id(owner), 0) + 1

    def on_step(self, update: Update) -> None:
        self.stepped.add(id(update.optimizer))

    def finish(self) -> None:
        if self.session.error is not None:
            return
        for key, optimizer in self.optimizers.items():
            if key in self.stepped or self.passes.get(key, 0) < _PASSES \
                    or self.cleared.get(key, 0) < _PASSES:
                continue
            parameter, before = self.first[key]
            if bool((parameter._array == before).all()):
                self.report(f"step() of {type(optimizer).__name__} is never called",
                            self.backward[key], self.session.optimizers.get(optimizer),
                            **{"backward passes": self.passes[key]})
