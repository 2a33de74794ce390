"""Weights of the samples that multiply a mean over them."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import Backward, LossCall
from ...finding import Level
from ...graph import get_node
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class WeightsAfterMean(Rule):
    """Looks at what is multiplied with a loss that has been reduced to one number."""

    id = "weights-after-the-mean"
    level = Level.LIKELY
    needs = ("on_loss", "on_operand")
    title = (
        "a per-sample weight or mask multiplies the mean loss: it has no effect on single samples"
    )
    why = (
        "The loss is already a single number, so the product is that number times the mean of the "
        "weights: every sample counts the same. Reported when a loss reduced over a batch is "
        "multiplied by a tensor without gradient that has one entry per sample or target."
    )
    fix = "reduction='none', then (loss * weight).mean()"
    broken = """
net, weight = nn.Linear(8, 3), torch.rand(64)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = (F.cross_entropy(net(x), y) * weight).mean()  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = (F.cross_entropy(net(x), y) * weight).mean()  # <-":
            'loss = (F.cross_entropy(net(x), y, reduction="none") * weight).mean()',
    })
    healthy = ("""
# One number as a weight.
net, weight = nn.Linear(8, 3), torch.tensor([0.5])
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = (F.cross_entropy(net(x), y) * weight).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Weights of several losses.
net, weights = nn.Linear(8, 3), torch.tensor([0.5, 0.25])
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    losses = torch.stack([F.cross_entropy(net(x), y), F.cross_entropy(net(-x), y)])
    loss = (losses * weights).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.losses: list[tuple[Any, set[int]]] = []  # nodes, weakly; numbers of samples

    def on_loss(self, call: LossCall) -> None:
        node = get_node(getattr(call.result, "_node", None))
        target = getattr(call.target, "_array", None)
        if node is not None and call.result._array.ndim == 0 and call.values.ndim:
            sizes = {call.values.size, len(call.values), 0 if target is None else target.size}
            self.losses.append((weakref.ref(node), sizes - {0, 1}))

    def on_backward(self, backward: Backward) -> None:
        self.losses.clear()

    on_gradient = on_backward

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        if name != "mul" or recorded._array.ndim or constant._array.size < 2:
            return
        node = get_node(recorded._node)
        for reference, sizes in self.losses:
            if reference() is node and constant._array.size in sizes:
                self.report("a mean over the batch is multiplied by per-sample weights", spot,
                            weights=constant._array.size)
