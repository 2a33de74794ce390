"""Layers that each forward pass constructs anew."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_WEIGHTED_LAYERS = ("Linear", "Conv", "Norm", "Embedding", "LSTM", "GRU", "RNN", "Attention")
_MIN_CALLS = 3  # a layer may well be created in the first call, when its size is known


class LayerInForward(Rule):
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
        self.passes: dict[Spot | None, set[int]] = {}  # in which each line constructed a layer

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        stack = self.session.stack
        if not stack or not type(module).__module__.startswith("flambeau.nn.modules."):
            return
        layer = type(module).__name__
        if not any(name in layer for name in _WEIGHTED_LAYERS):
            return
        passes = self.passes.setdefault(spot, set())
        passes.add(self.session.clock.passes)
        if len(passes) >= _MIN_CALLS:
            self.report(f"{layer} is created again in each call of {type(stack[0]).__name__}",
                        spot, times=len(passes))
