"""Layers that are constructed anew in each forward pass."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class MadeInForward(Rule):
    """Counts layers with parameters that are constructed while a module runs."""

    id = "layer-made-in-forward"
    level = Level.CERTAIN
    needs = ("on_call", "on_module_constructed")
    title = "a layer is created in forward(): every call has new random weights"
    why = (
        "No optimizer knows these weights, and whatever they learn is lost. Reported at the third "
        "call."
    )
    fix = "create the layer in __init__"
    broken = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)

    def forward(self, x):
        return nn.Linear(16, 3)(torch.relu(self.body(x)))  # <-

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "self.body = nn.Linear(8, 16)": "self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)",
        "return nn.Linear(16, 3)(torch.relu(self.body(x)))  # <-":
            "return self.head(torch.relu(self.body(x)))",
    })
    healthy = ("""
# At the first call only, when the size is known.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = None

    def forward(self, x):
        if self.head is None:
            self.head = nn.Linear(x.shape[1], 3)
        return self.head(x)

net = Net()
net(x)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""", """
# Activations have no weights.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(nn.ReLU()(self.body(x)))

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Spot | None, set[int]] = {}

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        stack = self.session.stack
        if not stack or type(module).__module__.startswith("flambeau.nn.modules.") is False:
            return
        kind = type(module).__name__
        if not any(word in kind for word in ("Linear", "Conv", "Norm", "Embedding", "LSTM", "GRU",
                                             "RNN", "Attention")):
            return
        calls = self.times.setdefault(spot, set())
        calls.add(self.session.clock.passes)
        if len(calls) >= 3:
            self.report(f"{kind} is created again in each call of {type(stack[0]).__name__}",
                        spot, times=len(calls))
