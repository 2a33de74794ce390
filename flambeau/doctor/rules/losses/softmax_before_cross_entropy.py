"""cross_entropy of probabilities instead of logits."""

from __future__ import annotations

import math

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...graph import get_operator_name
from ..rule import Rule

_TOLERANCE = 1e-4  # of a sum of probabilities
_CERTAIN = 0.999  # a probability: inputs of ones and zeros may be one-hot


def are_probabilities(values: np.ndarray, axis: int) -> bool:
    """Whether all slices along an axis are distributions, not all of them one-hot."""
    if values.ndim < 2 or values.shape[axis] < 2 or values.min() < 0 or values.max() > 1:
        return False
    sums = values.sum(axis)
    return bool(np.abs(sums - 1).max() < _TOLERANCE) and bool((values.max(axis) < _CERTAIN).any())


class SoftmaxBeforeCrossEntropy(Rule):
    """Looks at what computed the input of cross_entropy, or at its values."""

    id = "softmax-before-cross-entropy"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "cross_entropy receives probabilities; it takes logits and applies softmax itself"
    why = (
        "The second softmax sees only numbers between 0 and 1, so the loss cannot approach 0 and "
        "gradients are weak: with 10 classes it stays above 1.46. Not reported for log_softmax, "
        "which a second application leaves unchanged."
    )
    fix = "pass the logits to cross_entropy: remove the softmax"
    broken = """
net = nn.Sequential(
    nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3),
    nn.Softmax(dim=1),  # <-
)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
probabilities = F.softmax(net(x), dim=1)
"""
    healthy = ("""
# A gate that is a softmax, in the middle of the network.
gate, experts = nn.Linear(8, 4), nn.Linear(8, 12)
optimizer = optim.Adam([*gate.parameters(), *experts.parameters()])
for _ in range(4):
    weights = F.softmax(gate(x), dim=1)
    logits = (experts(x).view(64, 4, 3) * weights[:, :, None]).sum(1)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Cosine similarities lie between -1 and 1, and are logits all the same.
centres = nn.Parameter(torch.randn(3, 8))
optimizer = optim.Adam([centres])
for _ in range(4):
    loss = F.cross_entropy(F.normalize(x, dim=1) @ F.normalize(centres, dim=1).T, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        if call.name != "cross_entropy" or not call.recorded or not call.input.requires_grad:
            return
        name = get_operator_name(call.node) if call.node is not None else ""
        classes = call.classes or 1
        floor = math.log(1 + (classes - 1) / math.e)
        if classes > 1 and (name == "softmax" or (
            name != "log_softmax" and are_probabilities(call.values, 1)
        )):
            self.report(
                "cross_entropy applies softmax to the output of a softmax",
                *self.origin(call.node), call.spot,
                **{"range": [float(call.values.min()), float(call.values.max())],
                   "the loss cannot fall below": floor},
            )
        elif name == "sigmoid" and classes > 1:
            self.report(
                "cross_entropy applies softmax to the output of a sigmoid",
                *self.origin(call.node), call.spot, level=Level.LIKELY,
                **{"the loss cannot fall below": floor},
            )
