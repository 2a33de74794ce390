"""An optimizer of parameters that the loss does not depend on."""

from __future__ import annotations

from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 3


class OtherParameters(Rule):
    """Compares the leaves of the graph with what the optimizers have."""

    id = "optimizer-of-other-parameters"
    level = Level.CERTAIN
    needs = ("on_step", "on_backward")
    title = "the optimizer holds parameters that are no longer, or never were, part of the model"
    why = (
        "If a layer is replaced after the optimizer was created, or a model is rebuilt, its new "
        "parameters are unknown to the optimizer and keep their initial values. Judged after "
        f"{_STEPS} steps; not reported if all trained parameters are in some optimizer."
    )
    fix = "create the optimizer after the model has its final form"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = optim.SGD(net.parameters(), lr=0.01)  # <-
net[2] = nn.Linear(16, 3)
for _ in range(5):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.SGD(net.parameters(), lr=0.01)  # <-": "",
        "net[2] = nn.Linear(16, 3)":
            "net[2] = nn.Linear(16, 3)\noptimizer = optim.SGD(net.parameters(), lr=0.01)",
    })
    healthy = ("""
# Only the head is trained; the rest has gradients that nobody uses.
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.SGD(net[2].parameters(), lr=0.01)
for _ in range(5):
    loss = F.cross_entropy(net(x), y)
    net.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Two optimizers that take turns: one's parameters are not used in the other's steps.
a, b = nn.Linear(8, 3), nn.Linear(8, 3)
first, second = optim.SGD(a.parameters(), lr=0.01), optim.SGD(b.parameters(), lr=0.01)
for step in range(10):
    net, optimizer = (a, first) if step < 5 else (b, second)
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.reached: dict[int, Any] = {}  # leaves that a backward pass came to
        self.steps: dict[int, int] = {}
        self.latest: dict[int, Any] = {}  # leaves that passes since the latest step came to
        self.idle: dict[int, int] = {}  # an optimizer's steps in a row without any gradient

    def on_backward(self, backward: Backward) -> None:
        if backward.watched:
            self.reached.update(backward.graph.leaves)
            self.latest.update(backward.graph.leaves)

    def after_step(self, update: Update) -> None:
        if not update.watched:
            return
        latest, self.latest = self.latest, {}
        self._judge_abandoned(update, latest)
        key = id(update.optimizer)
        self.steps[key] = self.steps.get(key, 0) + 1
        if self.steps[key] != _STEPS:
            return
        trainable = [p for p in update.params if p.requires_grad]
        orphans = [p for p in trainable if id(p) not in self.reached]
        optimized = self.session.optimized
        strays = [
            p for i, p in self.reached.items()
            if i not in optimized and p.requires_grad and isinstance(p, Parameter)
        ]
        replaced = [p for p in orphans if self.session.root_of(p) is None]
        if len(orphans) == len(trainable):
            replaced = orphans  # none of its parameters is used
        if not orphans or not strays or not replaced:
            return
        name = self.session.name_of(update.optimizer, "the optimizer")
        self.report(
            f"{name} has {len(replaced)} parameters that no loss depends on, and lacks "
            f"{self.session.parameter_names(strays)}",
            self.session.optimizers.get(update.optimizer), self._find_constructor(strays[0]),
            **{"in no optimizer": len(strays), "without effect": len(replaced)},
        )

    def _judge_abandoned(self, update: Update, latest: dict[int, Any]) -> None:
        """Report a model that replaced a trained one while the optimizer holds the old one."""
        optimized, key = self.session.optimized, id(update.optimizer)
        trainable = [p for p in update.params if p.requires_grad]
        strays = [p for i, p in latest.items()
                  if i not in optimized and p.requires_grad and isinstance(p, Parameter)]
        is_abandoned = all(id(p) in self.reached and id(p) not in latest for p in trainable)
        self.idle[key] = self.idle.get(key, 0) + 1 if strays and trainable and is_abandoned else 0
        if self.idle[key] == _STEPS:
            name = self.session.name_of(update.optimizer, "the optimizer")
            self.report(
                f"{name} has the parameters of a model that is no longer used, and lacks "
                f"{self.session.parameter_names(strays)}",
                self.session.optimizers.get(update.optimizer), self._find_constructor(strays[0]),
                **{"in no optimizer": len(strays), "without gradients": len(trainable)},
            )

    def _find_constructor(self, parameter: Any) -> Spot | None:
        for module, spot in list(self.session.built_at.items()):
            if any(p is parameter for p in module._parameters.values()):
                return spot
        return None
