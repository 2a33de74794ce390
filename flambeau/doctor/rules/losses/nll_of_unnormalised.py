"""nll_loss or ctc_loss of what are no log-probabilities."""

from __future__ import annotations

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...graph import get_operator_name
from ...programs import edit
from ..rule import Rule
from .softmax_before_cross_entropy import are_probabilities

_MAX_LOG = 1e-3  # of a probability: 0, and rounding
_MIN_EXCESS = 0.05  # by which all sums of probabilities differ from 1


class NllOfUnnormalised(Rule):
    """Looks at the values: exp of log-probabilities sums to 1 over the classes."""

    id = "nll-without-log-softmax"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "nll_loss receives probabilities or logits; it takes log-probabilities"
    why = (
        "nll_loss only picks the target's entry and negates it. With logits it decreases without "
        "bound as they all grow; with probabilities its gradient does not grow where the network "
        "is wrong. Certain if an entry is positive, which no log-probability is."
    )
    fix = "use cross_entropy on logits, or log_softmax(..., dim=1) before nll_loss"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.nll_loss(net(x), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.nll_loss(net(x), y)  # <-": "loss = F.nll_loss(F.log_softmax(net(x), dim=1), y)",
    })
    healthy = ("""
# The logarithm of a mixture of two distributions: normalized, though no log_softmax computed it.
a, b = nn.Linear(8, 3), nn.Linear(8, 3)
optimizer = optim.Adam([*a.parameters(), *b.parameters()])
for _ in range(4):
    mixture = 0.5 * F.softmax(a(x), dim=1) + 0.5 * F.softmax(b(x), dim=1)
    loss = F.nll_loss(mixture.log(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Log-probabilities of images: the classes are axis 1.
net = nn.Conv2d(1, 3, 3, padding=1)
optimizer = optim.Adam(net.parameters())
image, labels = torch.rand(4, 1, 6, 6), torch.randint(0, 3, (4, 6, 6))
for _ in range(4):
    loss = F.nll_loss(F.log_softmax(net(image), dim=1), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        if call.name not in ("nll_loss", "ctc_loss") or call.values.size == 0:
            return
        axis = -1 if call.name == "ctc_loss" else (1 if call.values.ndim > 1 else 0)
        values = call.values
        if not np.isfinite(values).any():
            return
        largest = float(values.max())
        name = get_operator_name(call.node) if call.node is not None else ""
        if name == "log_softmax":
            return  # over another axis: softmax-over-the-batch
        if name == "softmax" or are_probabilities(values, axis):
            self.report(f"{call.name} receives probabilities; it takes log-probabilities",
                        *self.origin(call.node), call.spot, largest=largest)
            return
        sums = np.exp(np.minimum(values.astype(np.float64), 50)).sum(axis)
        if largest > _MAX_LOG:
            self.report(f"{call.name} receives logits; it takes log-probabilities", call.spot,
                        *self.origin(call.node),
                        **{"largest": largest,
                           "exp sums to": [float(sums.min()), float(sums.max())]})
        elif np.abs(sums - 1).min() > _MIN_EXCESS:
            self.report(f"{call.name} receives numbers whose exp does not sum to 1", call.spot,
                        *self.origin(call.node), level=Level.LIKELY,
                        **{"exp sums to": [float(sums.min()), float(sums.max())]})
