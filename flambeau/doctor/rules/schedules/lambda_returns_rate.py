"""A function of a LambdaLR that returns a rate where a factor is meant."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 8
_MAX_RATE = 0.1  # a greater one may be meant as a factor
_ROUNDING = 1e-6


class LambdaReturnsRate(Rule):
    """Compares the factors of a LambdaLR with the rate that they multiply."""

    id = "lambda-returns-a-rate"
    level = Level.LIKELY
    needs = ("on_schedule",)
    title = (
        "the function of a LambdaLR returns the learning rate, which is then multiplied by the "
        "rate again"
    )
    why = (
        "LambdaLR multiplies the optimizer's rate by the returned value: 0.001 times 0.001 is a "
        f"millionth. Reported when the largest factor in {_STEPS} steps equals the optimizer's own "
        "rate to six digits and is below 0.1. Not reported for factors with another maximum."
    )
    fix = "return only the factor: min(1.0, (k + 1) / warm_up)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
rate = optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.01 * min(1.0, (k + 1) / 4))  # <-
for _ in range(16):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    rate.step()
"""
    fixed = edit(broken, {
        "rate = optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.01 * min(1.0, (k + 1) / 4))"
        "  # <-": "rate = optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 4))",
    })
    healthy = ("""
# The rate of the optimizer is 1: the function gives rates.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=1.0)
rate = optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.01 * min(1.0, (k + 1) / 4))
for _ in range(16):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    rate.step()
""", """
# A hundredth of the rate at first: the factor only passes through 0.01.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
rate = optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, 0.01 * 1.3**k))
for _ in range(16):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    rate.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.constructors: dict[int, Spot | None] = {}
        self.greatest: dict[int, list[float]] = {}  # the greatest factor, how often it was seen

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        if type(scheduler).__name__ == "LambdaLR":
            self.constructors[id(scheduler)] = spot
            self.session.follow(scheduler)

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        key = id(scheduler)
        if key not in self.constructors:
            return
        base = float(scheduler.base_lrs[0])
        rate = float(scheduler.optimizer.param_groups[0]["lr"])
        if not 0 < base < _MAX_RATE:
            return
        entry = self.greatest.setdefault(key, [0.0, 0.0])
        entry[0] = max(entry[0], rate / base)
        entry[1] += 1
        if entry[1] >= _STEPS and abs(entry[0] / base - 1) < _ROUNDING:
            self.report("the function returns the optimizer's rate and is multiplied by it",
                        self.constructors[key], spot, factor=entry[0], lr=rate)
