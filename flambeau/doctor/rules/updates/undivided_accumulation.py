"""Gradients of several batches that are added where their mean is meant."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import Backward, LossCall, Update
from ...finding import Level
from ...graph import get_node
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_UPDATES = 3


class UndividedAccumulation(Rule):
    """Counts the backward passes between updates whose root is a loss's own mean."""

    id = "accumulation-undivided"
    level = Level.LIKELY
    needs = ("on_loss", "on_backward", "on_step")
    title = "gradients of k batches are summed and not divided: the step is k times as large"
    why = (
        "backward() adds to .grad, so k means give k times the gradient of the mean: SGD steps k "
        "times as far, and clipping cuts k times as much. (Adam's own steps stay about the same.) "
        f"Reported when each of {_UPDATES} updates follows two or more passes from one line, whose "
        "roots are means over different batches. Not reported for sums, for scaled losses, for "
        "several passes of one batch, or if the program reads .grad before the update."
    )
    fix = "(loss / k).backward(), with k the number of batches per update"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for i, (xb, yb) in enumerate(zip(x.split(8), y.split(8))):
        loss = F.cross_entropy(net(xb), yb)
        loss.backward()  # <-
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(net(xb), yb)":
            "loss = F.cross_entropy(net(xb), yb) / 4\nloss.backward()",
        "loss.backward()  # <-": "",
    })
    healthy = ("""
# The gradients are divided, once they are complete.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for i, (xb, yb) in enumerate(zip(x.split(8), y.split(8))):
        F.cross_entropy(net(xb), yb).backward()
        if i % 4 == 3:
            for parameter in net.parameters():
                parameter.grad /= 4
            optimizer.step()
            optimizer.zero_grad()
""", """
# Sums over the samples, divided by the number of all of them.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    for xb, yb in zip(x.split(16), y.split(16)):
        (F.cross_entropy(net(xb), yb, reduction="sum") / 64).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.means: list[Any] = []  # weak references to the nodes of losses since a pass
        self.passes: list[Spot | None] = []  # since the latest update; None: not judged
        self.target: Any = None  # the latest loss's
        self.repeats = False  # one batch makes several passes
        self.divided = False
        self.count = 0

    def on_loss(self, call: LossCall) -> None:
        node = get_node(getattr(call.result, "_node", None))
        if node is not None and call.argument("reduction", "mean") == "mean" \
                and call.values.ndim and len(call.values) > 1:
            target = getattr(call.target, "_array", None)
            self.repeats |= target is None or target is self.target
            self.target = target
            self.means.append(weakref.ref(node))

    def on_backward(self, backward: Backward) -> None:
        roots = [get_node(root) for root in backward.roots]
        mean = len(roots) == 1 and any(reference() is roots[0] for reference in self.means)
        self.passes.append(backward.spot if mean and backward.watched else None)
        self.means.clear()
        self.divided = False

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        self.passes.clear()

    def on_grad_read(self, tensor: Any) -> None:
        self.divided = True

    def on_step(self, update: Update) -> None:
        passes, self.passes = self.passes, []
        if not passes:
            return
        alike = len(passes) > 1 and passes[0] is not None and len(set(passes)) == 1
        self.count = self.count + 1 if alike and not (self.divided or self.repeats) else 0
        self.repeats, self.target = False, None
        if self.count >= _UPDATES:
            self.report(f"the mean losses of {len(passes)} batches are summed for each update",
                        passes[0], update.spot, **{"passes an update": len(passes)})
