"""Training that makes the loss worse."""

from __future__ import annotations

from typing import Any

from ....autograd.node import Node
from ...events import Backward, Update
from ...finding import Level
from ...graph import find_spot, get_node, get_operator_name
from ...programs import edit
from ..rule import Rule

_LOSSES = (
    "_cross_entropy", "_nll_loss", "_mse_loss", "_binary_cross_entropy",
    "_binary_cross_entropy_with_logits", "_l1_loss", "_smooth_l1_loss", "_huber_loss",
)
_STEPS = 10
_MIN_GROWTH = 1.05


class LossNegated(Rule):
    """Looks whether the root of each backward pass is a loss with a minus in front."""

    id = "loss-negated"
    level = Level.LIKELY
    needs = ("on_backward", "on_step")
    title = "a loss that should fall is negated and minimized: training makes it worse"
    why = (
        "Reported when an optimizer minimizes only the negative of a cross entropy or an error "
        f"for {_STEPS} steps, and that loss has risen. Not reported if another loss is minimized "
        "too, as in adversarial training, if the input is optimized, or for maximize=True."
    )
    fix = "minimize the loss itself: loss.backward() without the minus"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(14):
    loss = -F.cross_entropy(net(x), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = -F.cross_entropy(net(x), y)  # <-": "loss = F.cross_entropy(net(x), y)",
    })
    healthy = ("""
# An input that gets harder for a fixed network.
net, change = nn.Linear(8, 3).requires_grad_(False), nn.Parameter(torch.zeros(64, 8))
optimizer = optim.SGD([change], lr=0.1)
for _ in range(14):
    loss = -F.cross_entropy(net(x + change), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Maximised on purpose.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1, maximize=True)
for _ in range(14):
    loss = -F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.values: list[float] = []
        self.pending: tuple[Any, Backward] | None = None
        self.over = False

    def on_backward(self, backward: Backward) -> None:
        if self.over or len(self.values) > _STEPS:
            return
        node = get_node(backward.roots[0]) if len(backward.roots) == 1 else None
        if not isinstance(node, Node) or get_operator_name(node) != "neg" or backward.value is None:
            self.over = True
            return
        operand = get_node(node.edges[0])
        if not isinstance(operand, Node) or get_operator_name(operand) not in _LOSSES:
            self.over = True  # the program minimizes more than this loss
            return
        self.pending = find_spot(node), backward

    def on_step(self, update: Update) -> None:
        if self.over or self.pending is None or self.pending[1].value is None:
            return
        group = update.optimizer.param_groups[0]
        roots = [self.session.root_of(p) for p in update.params[:1]]
        if group.get("maximize") or None in roots:
            self.over = True
            return
        self.values.append(-self.pending[1].value)
        if len(self.values) == _STEPS and self.values[-1] > _MIN_GROWTH * self.values[0]:
            self.over = True
            self.report("the loss rises in every step: its negative is minimized",
                        self.pending[0], self.pending[1].spot,
                        loss=[self.values[0], self.values[-1]])
