"""An optimizer that is recreated for every step."""

from __future__ import annotations

from typing import Any

from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 5


class OptimizerEachStep(Rule):
    """Counts optimizers of the same parameters that are constructed on the same line."""

    id = "optimizer-each-step"
    level = Level.LIKELY
    needs = ("on_optimizer", "on_step")
    title = "the optimizer is recreated in the loop: its averages and momentum are lost"
    why = (
        "Adam's first step has the size of the learning rate whatever the gradient, and momentum "
        "never builds up. Reported at the fifth time for the same parameters. Not reported for "
        "SGD without momentum, for new models, or if weights are loaded in between (as in "
        "meta-learning)."
    )
    fix = "create the optimizer once, before the loop"
    broken = """
net = nn.Linear(8, 1)
for _ in range(8):
    optimizer = optim.Adam(net.parameters(), lr=0.01)  # <-
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Linear(8, 1)":
            "net = nn.Linear(8, 1)\noptimizer = optim.Adam(net.parameters(), lr=0.01)",
        "optimizer = optim.Adam(net.parameters(), lr=0.01)  # <-": "",
    })
    healthy = ("""
# A new optimizer for each task, with several steps each.
for _ in range(4):
    net = nn.Linear(8, 1)
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(net(x), t).backward()
        optimizer.step()
""", """
# Plain gradient descent has nothing to lose.
net = nn.Linear(8, 1)
for _ in range(8):
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.last: dict[Spot | None, tuple[set[int], int]] = {}  # parameters, how many in a row
        self.steps: dict[Spot | None, int] = {}  # since the last was constructed on that line
        self.spots: dict[int, Spot | None] = {}
        self.loaded = False

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        self.loaded = True

    def on_optimizer(self, optimizer: Any, spot: Spot | None) -> None:
        parameters = {id(p) for group in optimizer.param_groups for p in group["params"]}
        previous, times = self.last.get(spot, (set(), 0))
        steps = self.steps.get(spot, 0)
        is_recreated = previous == parameters and steps > 0 and not self.loaded
        self.loaded = False
        times = times + 1 if is_recreated else 1
        self.last[spot], self.steps[spot] = (parameters, times), 0
        self.spots[id(optimizer)] = spot
        group = optimizer.param_groups[0]
        stateless = type(optimizer).__name__ == "SGD" and not group.get("momentum")
        if times >= _TIMES and not stateless:
            frequency = "at every step" if steps == 1 else f"after every {steps} steps"
            self.report(f"{type(optimizer).__name__} is recreated {frequency}", spot,
                        **{"times": times, "steps each": steps})

    def on_step(self, update: Update) -> None:
        spot = self.spots.get(id(update.optimizer))
        if spot is not None:
            self.steps[spot] = self.steps.get(spot, 0) + 1
