"""A policy gradient whose weight is trained too."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import Backward
from ...finding import Level
from ...graph import Graph, find_spot, get_node, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_THROUGH = ("neg", "squeeze_dims", "squeeze", "_view", "reshape", "sum", "unsqueeze", "expand")


class AdvantageWithGradient(Rule):
    """Looks at what the results of log_prob are multiplied by."""

    id = "advantage-with-gradient"
    level = Level.LIKELY
    needs = ("on_log_prob", "on_backward")
    title = "log_prob is multiplied by an advantage that requires grad: detach it"
    why = (
        "The policy's loss then also trains the critic, toward values that make bad actions look "
        "good. Not reported if the factor is a single trained number, such as a temperature."
    )
    fix = "advantage = (returns - values).detach()"
    broken = """
from flambeau.distributions import Categorical
actor, critic = nn.Linear(8, 3), nn.Linear(8, 1)
optimizer = optim.Adam([*actor.parameters(), *critic.parameters()])
for _ in range(4):
    actions, values = Categorical(logits=actor(x)), critic(x)
    chosen, advantage = actions.sample(), (t - values).squeeze(1)
    loss = -(actions.log_prob(chosen) * advantage).mean()  # <-
    loss = loss + F.mse_loss(values, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "chosen, advantage = actions.sample(), (t - values).squeeze(1)":
            "chosen, advantage = actions.sample(), (t - values).squeeze(1).detach()\n"
            "loss = -(actions.log_prob(chosen) * advantage).mean()",
        "loss = -(actions.log_prob(chosen) * advantage).mean()  # <-": "",
    })
    healthy = ("""
# A trained temperature.
from flambeau.distributions import Normal
actor, temperature = nn.Linear(8, 1), nn.Parameter(torch.zeros(()))
optimizer = optim.Adam([*actor.parameters(), temperature])
for _ in range(4):
    q = Normal(actor(x), 1.0)
    action = q.rsample()
    loss = (q.log_prob(action) * temperature.exp()).mean() + F.mse_loss(action, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Weights of a mixture, which are to be trained with its parts.
from flambeau.distributions import Normal
gate, centres = nn.Linear(8, 3), nn.Parameter(torch.randn(3))
optimizer = optim.Adam([*gate.parameters(), centres])
for _ in range(4):
    loss = -(Normal(centres, 1.0).log_prob(t) + F.log_softmax(gate(x), 1)).logsumexp(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.logs: weakref.WeakSet[Any] = weakref.WeakSet()  # nodes of log_prob's results

    def on_log_prob(self, distribution: Any, value: Any, result: Any, spot: Spot | None) -> None:
        node = get_node(getattr(result, "_node", None))
        if node is not None and not getattr(value, "requires_grad", False):
            self.logs.add(node)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or not self.logs:
            return
        for node in backward.graph.nodes:
            if get_operator_name(node) != "mul" or len(node.edges) != 2:
                continue
            sides = [get_node(edge) for edge in node.edges]
            if any(side is None for side in sides):
                continue
            logs = [self._is_log(side) for side in sides]
            if logs.count(True) == 1:
                self._judge(node, sides[logs.index(False)], backward)

    on_gradient = on_backward

    def _is_log(self, node: Any) -> bool:
        if not hasattr(node, "edges"):
            return False
        if get_operator_name(node) in ("stack", "cat") and node.edges:
            return all(edge is not None and self._is_log(get_node(edge)) for edge in node.edges)
        while get_operator_name(node) in _THROUGH and len(node.edges) == 1:
            if node in self.logs:
                return True
            node = get_node(node.edges[0])
            if not hasattr(node, "edges"):
                return False
            if get_operator_name(node) in ("stack", "cat"):
                return self._is_log(node)
        return hasattr(node, "edges") and node in self.logs

    def _judge(self, node: Any, weight: Any, backward: Backward) -> None:
        leaves = Graph([weight]).leaves.values() if hasattr(weight, "edges") else [weight]
        if any(leaf._array.size > 1 for leaf in leaves):
            self.report("the factor of log_prob requires grad", find_spot(node),
                        backward.spot, parameters=len(list(leaves)))
