"""Binary cross-entropy with targets outside of 0..1."""

from __future__ import annotations

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_MIN_TARGET, _MAX_TARGET = -0.25, 1.5  # of smoothed or noisy labels


class BinaryTargetRange(Rule):
    """Looks at the targets' values."""

    id = "binary-target-range"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = "binary cross-entropy with targets that are not probabilities, such as -1 and 1"
    why = (
        "Outside of [0, 1] the loss has no minimum: it decreases without bound as the logits "
        "grow. Not reported from -0.25 to 1.5, the range of noisy GAN labels."
    )
    fix = "targets are 0 and 1: (target + 1) / 2 for -1 and 1; class indices need cross_entropy"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.binary_cross_entropy_with_logits(net(x), t.sign())  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.binary_cross_entropy_with_logits(net(x), t.sign())  # <-":
            "loss = F.binary_cross_entropy_with_logits(net(x), (t.sign() + 1) / 2)",
    })
    healthy = ("""
# Smoothed and noisy labels.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    labels = (t > 0).float() * 0.9 + 0.3 * torch.rand(64, 1)
    loss = F.binary_cross_entropy_with_logits(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Targets of -1 and 1 are what soft_margin_loss takes.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.soft_margin_loss(net(x), t.sign())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if not call.name.startswith("binary_cross_entropy") or not isinstance(target, Tensor) \
                or not target._array.size:
            return
        low, high = float(target._array.min()), float(target._array.max())
        if low < _MIN_TARGET or high > _MAX_TARGET:
            self.report(f"{call.name} has targets from {low:g} to {high:g}; they must be "
                        "probabilities", call.spot, targets=[low, high])
