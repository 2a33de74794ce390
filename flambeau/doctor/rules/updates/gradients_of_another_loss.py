"""Gradients that one network's loss leaves in another network, which uses them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward, Update
from ...finding import Level
from ...graph import call_of, find_spot, get_node
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .no_zero_grad import find_smallest

_TIMES = 3
_NUMBERS = 16  # of each gradient


class GradientsOfAnotherLoss(Rule):
    """Compares the gradients that one optimizer's step leaves elsewhere with those that the next
    optimizer uses."""

    id = "gradients-of-another-loss"
    level = Level.LIKELY
    needs = ("on_step", "on_backward")
    title = "a generator's step also uses the gradients of the discriminator's loss"
    why = (
        "The discriminator's backward() continues into the generator unless its output is "
        "detached, and pulls it in the wrong direction. Reported when one optimizer's step uses "
        "gradients left by a pass before the other optimizer's step, the later pass went through "
        f"both networks, and this happened {_TIMES} times. Not reported if they are cleared in "
        "between, or for parts that two losses share without a discriminator between them."
    )
    fix = "discriminator(fake.detach()), and zero_grad() before the generator's own backward()"
    broken = """
maker, judge = nn.Linear(8, 8), nn.Linear(8, 1)
first, second = optim.Adam(judge.parameters()), optim.Adam(maker.parameters())
for _ in range(6):
    first.zero_grad()
    loss = judge(maker(x)).mean() - judge(x).mean()  # <-
    loss.backward()
    first.step()
    loss = -judge(maker(x)).mean()
    loss.backward()
    second.step()
    second.zero_grad()
"""
    fixed = edit(broken, {
        "loss = judge(maker(x)).mean() - judge(x).mean()  # <-":
            "loss = judge(maker(x).detach()).mean() - judge(x).mean()",
    })
    healthy = (edit(broken, {
        # What the judge's loss left is cleared in time.
        "loss = judge(maker(x)).mean() - judge(x).mean()  # <-":
            "loss = judge(maker(x)).mean() - judge(x).mean()",
        "loss = -judge(maker(x)).mean()": "second.zero_grad()\nloss = -judge(maker(x)).mean()",
    }), """
# Two heads share a body, which learns of both losses.
body, a, b = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 1)
one_head, whole = optim.Adam(a.parameters()), optim.Adam([*body.parameters(), *b.parameters()])
for _ in range(6):
    F.cross_entropy(a(body(x)), y).backward()
    one_head.step()
    one_head.zero_grad()
    F.mse_loss(b(body(x)), t).backward()
    whole.step()
    whole.zero_grad()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.left: dict[int, _Left] = {}  # by the optimizer that stepped
        self.spot: Spot | None = None
        self.crossings: dict[int, Spot | None] = {}  # where a pass entered the judge, by it
        self.times: dict[tuple[int, int], int] = {}

    def on_backward(self, backward: Backward) -> None:
        self.spot = backward.spot
        for leftover in self.left.values():
            leftover.note_pass()
        if len(self.session.optimizers) > 1 and backward.watched:
            self.crossings = _find_crossings(backward, list(self.session.optimizers))

    def on_step(self, update: Update) -> None:
        key = id(update.optimizer)
        for judge, leftover in self.left.items():
            if judge == key or not leftover.used(key):
                continue
            self.times[judge, key] = self.times.get((judge, key), 0) + 1
            if self.times[judge, key] >= _TIMES:
                name = self.session.name_of(update.optimizer, "the optimizer")
                self.report(f"{name}.step() also uses the gradients of an earlier loss",
                            leftover.entry,
                            leftover.spot, update.spot, times=self.times[judge, key])
        if len(self.session.optimizers) > 1 and update.watched:
            self.left[key] = _Left(list(self.session.optimizers), key, self.spot,
                                   self.crossings.get(key))


class _Left:
    """The gradients in all optimizers' parameters when one of them stepped."""

    def __init__(self, optimizers: list[Any], judge: int, spot: Spot | None, entry: Any) -> None:
        self.judge, self.spot, self.entry = judge, spot, entry
        self.grads = {id(o): [(p, p._grad, _copy(p._grad)) for p in find_smallest(
            [p for group in o.param_groups for p in group["params"]])] for o in optimizers}
        self.stale: set[int] | None = None  # optimizers whose gradients the next pass adds to

    def note_pass(self) -> None:
        """Note at the start of a pass whose gradients have not changed since."""
        if self.stale is None:
            self.stale = {key for key, grads in self.grads.items() if any(
                p._grad is grad and np.any(values) and np.array_equal(_copy(grad), values)
                for p, grad, values in grads)}

    def used(self, key: int) -> bool:
        """Whether a later pass has added to this optimizer's gradients and to the judge's."""
        if self.stale is None or key not in self.stale or self.entry is None:
            return False
        has_grown = any(p._grad is grad and not np.array_equal(_copy(grad), values)
                        for p, grad, values in self.grads[key])
        return has_grown and any(p._grad is not None and not np.array_equal(_copy(p._grad), values)
                                 for p, _, values in self.grads.get(self.judge, ()))


def _copy(grad: Any) -> np.ndarray:
    array: np.ndarray = grad._array.reshape(-1)[:_NUMBERS].copy()
    return array


def _find_crossings(backward: Backward, optimizers: list[Any]) -> dict[int, Spot | None]:
    """Return, by optimizer, where its parameters first use results of another's parameters."""
    owners = {id(p): id(o) for o in optimizers for group in o.param_groups for p in group["params"]}
    owners_below: dict[int, set[int]] = {}
    result: dict[int, Spot | None] = {}
    for node in backward.graph.nodes:
        direct, inherited = set(), set()
        for edge in node.edges:
            source = None if edge is None else get_node(edge)
            if id(source) in owners:
                direct.add(owners[id(source)])
            else:
                inherited |= owners_below.get(id(source), set())
        for owner in direct:
            if inherited - {owner}:
                result.setdefault(owner, call_of(node) or find_spot(node))
        owners_below[id(node)] = direct | inherited
    return result
