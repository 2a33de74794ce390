"""Labels 0 and 1 where a loss takes -1 and 1."""

from __future__ import annotations

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_SIGNED = ("soft_margin_loss", "hinge_embedding_loss", "cosine_embedding_loss",
           "margin_ranking_loss")


class ZeroLabels(Rule):
    """Looks at the targets of the losses that take signs."""

    id = "zero-labels"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "a loss whose labels are -1 and 1 receives 0 and 1"
    why = (
        "Samples with label 0 contribute nothing to the gradient: the negative class is not "
        "learned."
    )
    fix = "labels of -1 and 1: 2 * target - 1"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.soft_margin_loss(net(x), (t > 0).float())  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.soft_margin_loss(net(x), (t > 0).float())  # <-":
            "loss = F.soft_margin_loss(net(x), 2 * (t > 0).float() - 1)",
    })
    healthy = ("""
# Only the positive class in this batch.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.soft_margin_loss(net(x), torch.ones(64, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Ranking with ties: 0 says that neither is to be first.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    order = torch.sign(t[:32] - t[32:]).round() * (t[:32] > 0)
    loss = F.margin_ranking_loss(net(x[:32]), net(x[32:]), order.clamp(-1, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name not in _SIGNED or not isinstance(target, Tensor):
            return
        values = set(np.unique(target._array).tolist())
        if values == {0, 1}:
            zeros = int((target._array == 0).sum())
            self.report(f"{call.name} takes labels -1 and 1, but receives 0 and 1", call.spot,
                        **{"labels 0": zeros, "of": int(target._array.size)})
