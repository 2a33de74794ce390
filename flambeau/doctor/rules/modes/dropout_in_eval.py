"""Functional dropout that evaluation mode does not turn off."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class DropoutInEval(Rule):
    """Looks at calls of functional dropout inside of modules in evaluation mode."""

    id = "dropout-in-eval"
    level = Level.LIKELY
    needs = ("on_call", "on_function")
    title = "F.dropout stays active in evaluation mode: it does not know the module's mode"
    why = (
        "F.dropout(x, p) has training=True by default. Reported when it is called with different "
        "input than before in a module on which eval() was called. Not reported for repeated "
        "calls with the same input (Monte Carlo dropout)."
    )
    fix = "F.dropout(x, p, training=self.training), or an nn.Dropout layer"
    broken = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(F.dropout(torch.relu(self.body(x)), 0.5))  # <-

net = Net()
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    a, b = net(x[:32]), net(x[32:])
"""
    fixed = edit(broken, {
        "return self.head(F.dropout(torch.relu(self.body(x)), 0.5))  # <-":
            "return self.head(F.dropout(torch.relu(self.body(x)), 0.5, self.training))",
    })
    healthy = ("""
# Samples of one input: the spread is what is asked for.
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(F.dropout(torch.relu(self.body(x)), 0.5))

net = Net()
net.eval()
with torch.no_grad():
    spread = torch.stack([net(x) for _ in range(8)]).std(0)
""", """
# Noise on the training data, outside of any module.
net = nn.Linear(8, 3).eval()
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(net(F.dropout(x, 0.1)), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.evaluated: set[int] = set()
        self.waiting: dict[Spot | None, np.ndarray] = {}  # what was dropped from, the first time

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        (self.evaluated.discard if training else self.evaluated.add)(id(module))
        self.session.clock.again()

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        stack = self.session.stack
        if "dropout" not in name or not stack or not args or not isinstance(args[0], Tensor):
            return
        p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        training = args[2] if len(args) > 2 else kwargs.get("training", True)
        module = stack[-1]
        if not training or not p or module.training or not stack[0]._modules \
                or id(stack[0]) not in self.evaluated or "Dropout" in type(module).__name__:
            return
        root = stack[0]
        self.pending = root
        previous = self.waiting.get(spot)
        self.waiting[spot] = args[0]._array
        if previous is None or previous.shape != args[0]._array.shape:
            return
        if not np.array_equal(previous, args[0]._array):
            self.report(f"{name} drops {p:.0%} in a module that is in evaluation mode", spot, p=p,
                        module=type(module).__name__)
