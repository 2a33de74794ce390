"""A setting that is written on the optimizer itself."""

from __future__ import annotations

from typing import Any

from ...events import Update
from ...finding import Level, Place
from ...programs import edit
from ..rule import Rule
from .misspelt_flag import find_assignment

_SETTINGS = ("lr", "momentum", "weight_decay", "betas", "eps", "alpha", "dampening", "nesterov",
             "learning_rate", "amsgrad", "maximize")


class OptimizerAttribute(Rule):
    """Looks for settings among the attributes of optimizers."""

    id = "setting-on-optimizer"
    level = Level.CERTAIN
    needs = ("on_step",)
    title = "optimizer.lr = ... sets an attribute that nothing reads"
    why = "The settings of an update are in optimizer.param_groups, one dict per group."
    fix = "for group in optimizer.param_groups: group['lr'] = value"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    optimizer.lr = 0.1 * 0.5**epoch  # <-
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer.lr = 0.1 * 0.5**epoch  # <-":
            'for group in optimizer.param_groups:\n    group["lr"] = 0.1 * 0.5**epoch',
    })
    healthy = ("""
# An optimizer of one's own, which has a setting of that name and reads it.
class Descent(optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {})
        self.lr = lr

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p -= self.lr * p.grad

net = nn.Linear(8, 3)
optimizer = Descent(net.parameters(), 0.1)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""", """
# Other attributes are anybody's.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
optimizer.name = "body"
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.told: set[str] = set()

    def on_step(self, update: Update) -> None:
        optimizer = update.optimizer
        if not update.watched or not type(optimizer).__module__.startswith("flambeau.optim"):
            return
        for name in _SETTINGS:
            if name in vars(optimizer) and name not in self.told:
                self.told.add(name)
                file = update.spot[0].co_filename if update.spot else ""
                line = find_assignment(file, name)
                place = None if line is None else Place(file, line)
                self.report(f"optimizer.{name} is an attribute that no update reads", place,
                            update.spot)
