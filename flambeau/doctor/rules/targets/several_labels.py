"""cross_entropy with several labels a sample."""

from __future__ import annotations

import numpy as np

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_MIN_LABELS = 1.5  # of a sample with several
_TOLERANCE = 1e-3  # of equal sums
_MAX_EXCESS = 0.02  # of sums over 1 that are meant to be probabilities


class SeveralLabels(Rule):
    """Looks at targets that are given as probabilities."""

    id = "several-labels"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "cross_entropy with several labels per sample: it treats classes as mutually exclusive"
    why = (
        "A softmax distributes one unit of probability, so labels that apply together compete. "
        "Not reported if the rows of the target sum to 1. Also reported if every row sums to the "
        "same other number, as smoothed labels do if they were not divided by the number of "
        "classes."
    )
    fix = "binary_cross_entropy_with_logits, which treats each label independently"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
labels = (x[:, :3] > 0).float()
for _ in range(4):
    loss = F.cross_entropy(net(x), labels)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(net(x), labels)  # <-":
            "loss = F.binary_cross_entropy_with_logits(net(x), labels)",
    })
    healthy = ("""
# One-hot targets.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), F.one_hot(y, 3).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A mixture of two samples, and of their labels.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
one_hot = F.one_hot(y, 3).float()
for _ in range(4):
    loss = F.cross_entropy(net(0.7 * x + 0.3 * x.flip(0)), 0.7 * one_hot + 0.3 * one_hot.flip(0))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if call.name != "cross_entropy" or not isinstance(target, Tensor) \
                or target._array.dtype.kind != "f" or target._array.ndim < 2:
            return
        values = target._array
        sums = values.sum(1)
        binary = bool(np.isin(values, (0, 1)).all())
        if binary and bool((sums > _MIN_LABELS).any()):
            self.report("samples have several labels, which compete in a softmax",
                        call.spot, **{"labels a sample": [float(sums.min()), float(sums.max())]})
        elif not binary and sums.size > 1 and values.min() >= 0 \
                and np.ptp(sums) < _TOLERANCE * abs(sums.max()) \
                and abs(sums.mean() - 1) > _MAX_EXCESS and not call.target.requires_grad:
            self.report("the targets of each sample do not sum to 1", call.spot,
                        fix="smoothed labels are one_hot * (1 - e) + e / classes",
                        sum=float(sums.mean()), classes=values.shape[1])
