"""Dropout of the output itself."""

from __future__ import annotations

from typing import Any

from ...events import LossCall
from ...finding import Level
from ...graph import find_module, find_spot, get_operator_name
from ...places import Spot
from ..rule import Rule


class DropoutBeforeLoss(Rule):
    """Looks at what computed the input of a loss."""

    id = "dropout-before-the-loss"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "dropout is the last operation before the loss: scores are zeroed at random"
    why = (
        "Dropout is for hidden units. Applied to predictions, it zeroes some entries and enlarges "
        "the rest, which the loss then corrects for. Reported when the input of a loss comes "
        "directly from an active dropout. Not reported if a layer follows it."
    )
    fix = "put the dropout before the last layer"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Dropout(0.5))  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    healthy = ("""
# A dropout of nothing.
net = nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.0))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Scores that are multiplied by a gate.
net, gate = nn.Linear(8, 3), nn.Linear(8, 3)
optimizer = optim.SGD([*net.parameters(), *gate.parameters()], lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x) * torch.sigmoid(gate(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.dropped: set[Spot | None] = set()  # lines that called F.dropout, with it on

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if "dropout" in name:
            rate = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            on = args[2] if len(args) > 2 else kwargs.get("training", True)
            if on and rate:
                self.dropped.add(spot)

    def on_loss(self, call: LossCall) -> None:
        node = call.node
        if node is None or not call.recorded or get_operator_name(node) not in ("mul", "dropout"):
            return
        layer = find_module(node)
        if "Dropout" in type(layer).__name__ or (
            find_spot(node) in self.dropped and len(node.edges) == 1
        ):
            self.report(f"{call.name} receives the output after dropout",
                        *self.origin(node), call.spot)
