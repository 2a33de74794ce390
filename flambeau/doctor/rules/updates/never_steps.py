"""An optimizer whose parameters get gradients, but which never steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .step_without_gradients import has_gradient

_MIN_PASSES = 10


@dataclass
class _History:
    """What happened to an optimizer that has not stepped."""

    optimizer: Any  # kept alive until the report
    parameter: Any
    values: Any  # of the parameter, before the first backward pass that was seen
    passes: int = 0
    last_backward: Spot | None = None


class NeverSteps(Rule):
    """Compares backward passes with steps, at the end."""

    id = "optimizer-never-steps"
    level = Level.LIKELY
    needs = ("on_optimizer", "on_backward")
    title = "gradients are computed and cleared, but their optimizer's step() is never called"
    why = (
        "Reported at the end when the parameters of an optimizer had gradients after "
        f"{_MIN_PASSES} backward passes, it cleared them itself, and no step followed. Not "
        "reported if the parameters changed without it."
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
# Gradients are accumulated over the whole data set for a single step.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
optimizer.zero_grad()
for xb, tb in zip(x.split(4), t.split(4)):
    (F.mse_loss(net(xb), tb) / 16).backward()
optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # By id of the optimizer.
        self.histories: dict[int, _History] = {}
        self.zero_grads: dict[int, int] = {}  # calls
        self.stepped: set[int] = set()

    def after_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for optimizer in list(self.session.optimizers):
            key = id(optimizer)
            if key not in self.stepped and has_gradient(optimizer):
                history = self.histories.get(key)
                if history is None:
                    parameter = optimizer.param_groups[0]["params"][0]
                    history = _History(optimizer, parameter, parameter._array.copy())
                    self.histories[key] = history
                history.passes += 1
                history.last_backward = backward.spot

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        self.zero_grads[id(owner)] = self.zero_grads.get(id(owner), 0) + 1

    def on_step(self, update: Update) -> None:
        self.stepped.add(id(update.optimizer))

    def finish(self) -> None:
        if self.session.error is not None:
            return
        for key, history in self.histories.items():
            if key in self.stepped or history.passes < _MIN_PASSES \
                    or self.zero_grads.get(key, 0) < _MIN_PASSES:
                continue
            if bool((history.parameter._array == history.values).all()):
                optimizer = history.optimizer
                self.report(f"step() of {type(optimizer).__name__} is never called",
                            history.last_backward, self.session.optimizers.get(optimizer),
                            **{"backward passes": history.passes})
