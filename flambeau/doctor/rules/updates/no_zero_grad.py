"""Gradients that are added to those of earlier updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

SAMPLED = 4  # parameters looked at of each optimizer: the smallest ones
_NUMBERS = 16  # of each gradient


@dataclass
class _Used:
    """A gradient that a step has used."""

    grad: Tensor
    numbers: np.ndarray
    stale: bool = False  # a later backward pass has added to it


def find_smallest(params: list[Any]) -> list[Any]:
    """The smallest parameters that have gradients."""
    return sorted((p for p in params if p._grad is not None), key=lambda p: p._array.size)[:SAMPLED]


def _copy_numbers(grad: Tensor) -> np.ndarray:
    return grad._array.reshape(-1)[:_NUMBERS].copy()


class NoZeroGrad(Rule):
    """Compares gradients after a step with those that the next backward pass meets."""

    id = "no-zero-grad"
    level = Level.CERTAIN
    needs = ("on_step", "on_backward")
    title = "gradients are never zeroed: each update uses the sum over all batches so far"
    why = (
        "backward() adds to .grad, so used gradients must be cleared before the next step. Judged "
        "at the next step of the same optimizer, so that a generator's loss may write into a "
        "discriminator's used gradients; not reported if several backward passes form one step."
    )
    fix = "optimizer.zero_grad() before backward()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    loss.backward()  # <-
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss.backward()  # <-": "optimizer.zero_grad()\nloss.backward()",
    })
    healthy = ("""
# Four batches make one update.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for step in range(16):
    loss = F.mse_loss(net(x), t) / 4
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
""", """
# The second optimizer's loss writes into the first one's gradients, which are cleared in time.
a, b = nn.Linear(8, 8), nn.Linear(8, 1)
first, second = optim.SGD(b.parameters(), lr=0.01), optim.SGD(a.parameters(), lr=0.01)
for _ in range(5):
    first.zero_grad()
    F.mse_loss(b(a(x).detach()), t).backward()
    first.step()
    second.zero_grad()
    F.mse_loss(b(a(x)), t).backward()
    second.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.used: dict[int, dict[int, tuple[Tensor, _Used]]] = {}  # by optimizer and parameter
        self.times: dict[int, int] = {}
        self.backward: Spot | None = None
        self.sizes: list[float] = []

    def after_step(self, update: Update) -> None:
        if update.watched:
            self.used[id(update.optimizer)] = {
                id(p): (p, _Used(p._grad, _copy_numbers(p._grad)))
                for p in find_smallest(update.params)
            }
        else:
            self.used.pop(id(update.optimizer), None)

    def on_backward(self, backward: Backward) -> None:
        self.backward = backward.spot
        for entries in self.used.values():
            for parameter, used in entries.values():
                grad = parameter._grad
                if grad is not used.grad or not np.any(grad._array):
                    used.stale = False
                elif np.array_equal(_copy_numbers(grad), used.numbers):
                    used.stale = True

    def on_step(self, update: Update) -> None:
        entries = self.used.get(id(update.optimizer))
        if not entries:
            return
        stale = [p for p, used in entries.values() if used.stale and p._grad is used.grad
                 and not np.array_equal(_copy_numbers(p._grad), used.numbers)]
        key = id(update.optimizer)
        self.times[key] = self.times.get(key, 0) + 1 if stale else 0
        if self.times[key] < 2:
            if stale:
                self.sizes = [_measure_gradient(stale[0])]
            return
        name = self.session.name_of(update.optimizer, "the optimizer")
        self.sizes.append(_measure_gradient(stale[0]))
        self.report(
            f"backward() adds to gradients that {name}.step() has already used",
            self.backward, update.spot, fix=f"{name}.zero_grad() before backward()",
            parameters=self.session.parameter_names(stale), **{"|grad|": self.sizes[-4:]},
        )


def _measure_gradient(parameter: Tensor) -> float:
    grad = parameter._grad
    return 0.0 if grad is None else float(np.sqrt(np.sum(np.square(grad._array))))
