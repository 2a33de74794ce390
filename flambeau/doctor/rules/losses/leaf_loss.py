"""backward() of a loss that is no part of a graph."""

from __future__ import annotations

import weakref
from typing import Any

from ....nn.parameter import Parameter
from ....tensor.tensor import Tensor
from ...events import Backward
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class LeafLoss(Rule):
    """Looks at the root of a backward pass."""

    id = "loss-is-a-leaf"
    level = Level.CERTAIN
    needs = ("on_backward",)
    title = "backward() starts at a tensor that no operator computed: no parameter gets a gradient"
    why = (
        "requires_grad_() and torch.tensor(..., requires_grad=True) silence the error that the "
        "loss has no grad_fn, but not its cause: the loss is cut off from the network."
    )
    fix = "compute the loss from the network's output, without item(), detach() or torch.tensor()"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = torch.tensor(F.mse_loss(net(x), t).item(), requires_grad=True)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = torch.tensor(F.mse_loss(net(x), t).item(), requires_grad=True)  # <-":
            "loss = F.mse_loss(net(x), t)",
    })
    healthy = ("""
# A parameter that is itself what is minimized.
size = nn.Parameter(torch.tensor(3.0))
optimizer = optim.SGD([size], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    size.backward()
    optimizer.step()
""", """
# Gradients that are handed over: the cotangent of an output.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    output = net(x)
    optimizer.zero_grad()
    output.backward(2 * (output.detach() - t) / 64)
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.leaves: list[tuple[Any, Spot | None]] = []  # weakly, and their lines

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "leaf":
            self.leaves = [*self.leaves[-7:], (weakref.ref(args[0]), spot)]

    def on_backward(self, backward: Backward) -> None:
        for root in backward.roots:
            if isinstance(root, Tensor) and not isinstance(root, Parameter) \
                    and not self._is_optimized(root):
                creation = next((spot for leaf, spot in self.leaves if leaf() is root), None)
                self.report("backward() starts at a leaf: no parameter is reached", creation,
                            backward.spot, shape=str(tuple(root.shape)))

    def _is_optimized(self, tensor: Tensor) -> bool:
        return any(
            p is tensor
            for optimizer in list(self.session.optimizers)
            for group in optimizer.param_groups
            for p in group["params"]
        )
