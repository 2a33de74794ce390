"""binary_cross_entropy_with_logits of probabilities."""

from __future__ import annotations

from ...events import LossCall
from ...finding import Level
from ...graph import get_operator_name
from ...programs import edit
from ..rule import Rule


class SigmoidBeforeBceWithLogits(Rule):
    """Looks at what computed the input."""

    id = "sigmoid-before-bce-with-logits"
    level = Level.CERTAIN
    needs = ("on_loss",)
    title = (
        "binary_cross_entropy_with_logits receives a sigmoid's output; it applies the sigmoid "
        "itself"
    )
    why = (
        "A sigmoid of numbers between 0 and 1 lies between 0.5 and 0.73: class 0 can never be "
        "predicted. Not reported if anything but a reshape stands between the sigmoid and the "
        "loss."
    )
    fix = "remove the sigmoid, or use binary_cross_entropy (BCELoss) on its output"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = optim.Adam(net.parameters())
target = (t > 0).float()
for _ in range(4):
    p = torch.sigmoid(net(x))  # <-
    loss = F.binary_cross_entropy_with_logits(p, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "p = torch.sigmoid(net(x))  # <-":
            "loss = F.binary_cross_entropy_with_logits(net(x), target)",
        "loss = F.binary_cross_entropy_with_logits(p, target)": "",
    })
    healthy = ("""
# Probabilities go to the loss that takes probabilities.
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    loss = F.binary_cross_entropy(net(x), (t > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A gate is a sigmoid, and what it gates is a logit.
value, gate = nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = optim.Adam([*value.parameters(), *gate.parameters()])
for _ in range(4):
    loss = F.binary_cross_entropy_with_logits(value(x) * torch.sigmoid(gate(x)), (t > 0).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def on_loss(self, call: LossCall) -> None:
        if call.name not in ("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"):
            return
        name = get_operator_name(call.node) if call.node is not None else ""
        if name in ("sigmoid", "softmax"):
            self.report(
                f"{call.name} applies a sigmoid to the output of a {name}",
                *self.origin(call.node), call.spot,
                range=[float(call.values.min()), float(call.values.max())],
            )
