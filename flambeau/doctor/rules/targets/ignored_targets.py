"""A batch in which every target is ignored."""

from __future__ import annotations

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule


class IgnoredTargets(Rule):
    """Looks at the targets of cross_entropy and nll_loss."""

    id = "all-targets-ignored"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "every target of a batch is ignore_index: the mean of nothing is nan"
    why = "The nan reaches all weights with the next update."
    fix = "skip such batches, or divide a sum by max(1, number of targets)"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
labels = torch.full((64,), -100)
for _ in range(2):
    loss = F.cross_entropy(net(x), labels)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "labels = torch.full((64,), -100)":
            "labels = torch.where(torch.arange(64) % 4 == 0, y, -100)",
        "loss = F.cross_entropy(net(x), labels)  # <-": "loss = F.cross_entropy(net(x), labels)",
    })
    healthy = ("""
# All but one are ignored.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
labels = torch.full((64,), -100)
labels[5] = 1
for _ in range(2):
    loss = F.cross_entropy(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A sum over none is 0.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = F.cross_entropy(net(x), torch.full((64,), -100), reduction="sum") \\
        + F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name not in ("cross_entropy", "nll_loss") or not isinstance(target, Tensor) \
                or target._array.dtype.kind not in "iu" or not target._array.size:
            return
        ignored = call.argument("ignore_index", -100)
        if call.argument("reduction", "mean") == "mean" and bool(np.all(target._array == ignored)):
            self.report(f"all {target._array.size} targets are ignore_index ({ignored}): the loss "
                        "is nan", call.spot, targets=int(target._array.size))
