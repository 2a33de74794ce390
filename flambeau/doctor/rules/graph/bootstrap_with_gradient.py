"""A bootstrapped target that is differentiated."""

from __future__ import annotations

from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward, ModuleCall
from ...finding import Level
from ...graph import RESHAPES, Graph, find_spot, get_node, get_operator_name
from ...programs import edit
from ..rule import Rule

_COMPARED = frozenset(("_mse_loss", "_smooth_l1_loss", "_huber_loss", "_l1_loss", "_sub"))


class BootstrapWithGradient(Rule):
    """Looks for `r + gamma * Q(s')` on one side of a difference, with Q(s) on the other."""

    id = "bootstrap-target-with-gradient"
    level = Level.LIKELY
    needs = ("on_backward", "on_call")
    title = "the target r + gamma * Q(next) requires grad: the network chases its own target"
    why = (
        "In temporal-difference learning the target is a constant. Gradients through it pull the "
        "value of the next state toward the current one, which makes learning slow or unstable. "
        "Reported when a network called twice appears on both sides of a difference, on one side "
        "scaled and added to a constant. Not reported for pairs compared directly, as in "
        "consistency losses, or for derivatives of one call."
    )
    fix = "compute the target under torch.no_grad(), or use target.detach()"
    broken = """
q = nn.Linear(8, 3)
optimizer = optim.Adam(q.parameters())
reward, following = torch.rand(64), torch.randn(64, 8)
for _ in range(3):
    value = q(x).gather(1, y[:, None]).squeeze(1)
    target = reward + 0.9 * q(following).max(1).values  # <-
    loss = F.smooth_l1_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "target = reward + 0.9 * q(following).max(1).values  # <-":
            "target = reward + 0.9 * q(following).max(1).values.detach()",
    })
    healthy = ("""
# Two views of a sample are to look alike to one network: both sides learn.
net = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
    loss = F.mse_loss(a, b) - 0.1 * (a.std(0) + b.std(0)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A differential equation u' = 1 - u / 2, with u' from autograd.grad.
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = optim.Adam(net.parameters())
end = torch.ones(64, 1)
for _ in range(3):
    at = torch.rand(64, 1, requires_grad=True)
    u = net(at)
    slope = torch.autograd.grad(u.sum(), at, create_graph=True)[0]
    loss = ((slope - (end + -0.5 * u)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.calls: dict[int, int] = {}  # of a module since the latest pass

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded:
            self.calls[id(call.module)] = self.calls.get(id(call.module), 0) + 1

    def on_backward(self, backward: Backward) -> None:
        is_repeated = any(count > 1 for count in self.calls.values())
        self.calls.clear()
        if not is_repeated or not backward.watched:
            return
        for node in backward.graph.nodes:
            if get_operator_name(node) not in _COMPARED:
                continue
            if len(node.edges) != 2 or None in node.edges:
                continue
            sides = [get_node(edge) for edge in node.edges]
            for target, value in (sides, sides[::-1]):
                sum_node = _find_bootstrap(target)
                if sum_node is not None and hasattr(value, "edges") \
                        and _find_bootstrap(value) is None and _do_share_parameters(target, value):
                    self.report("the target of the difference depends on the network being "
                                "trained", find_spot(sum_node), find_spot(node), backward.spot)
                    return

    on_gradient = on_backward


def _find_bootstrap(node: Any) -> Any:
    """The sum in `constant + factor * value`, seen through reshapes; None of anything else."""
    while hasattr(node, "edges") and get_operator_name(node) in RESHAPES and node.edges:
        node = get_node(node.edges[0])
    if not hasattr(node, "edges") or get_operator_name(node) != "_add":
        return None
    recorded = [get_node(edge) for edge in node.edges if edge is not None]
    if len(recorded) != 1:
        return None
    factor = recorded[0]
    while hasattr(factor, "edges") and get_operator_name(factor) in RESHAPES and factor.edges:
        factor = get_node(factor.edges[0])
    if not hasattr(factor, "edges") or get_operator_name(factor) != "mul":
        return None
    return node if sum(edge is not None for edge in factor.edges) == 1 else None


def _do_share_parameters(a: Any, b: Any) -> bool:
    leaves = [
        {key for key, leaf in Graph([side]).leaves.items() if isinstance(leaf, Parameter)}
        for side in (a, b)
    ]
    return bool(leaves[0] & leaves[1])
