"""A policy gradient of the wrong sign."""

from __future__ import annotations

import re
import weakref
from typing import Any

from ...events import Backward
from ...finding import Level
from ...graph import RESHAPES, find_spot, get_node, get_operator_name
from ...places import Spot, place_of
from ...programs import edit
from ..rule import Rule
from .term_of_wrong_sign import find_signed_terms

_REWARD = re.compile(r"\b(\w*(adv|reward|return|gain)\w*|rets?|R|G|gae)\b", re.IGNORECASE)
_COST = re.compile(r"cost|regret|penalty|neg|minus|loss_?es\b", re.IGNORECASE)


class RewardMinimised(Rule):
    """Follows log_prob from where it was computed to the root, and counts changes of sign."""

    id = "reward-minimised"
    level = Level.LIKELY
    needs = ("on_log_prob", "on_backward")
    title = "log_prob times reward is minimized: actions that paid off become rarer"
    why = (
        "Optimizers minimize, so a policy's loss is the negative of log_prob times the advantage. "
        "Reported when the product enters the loss with a positive sign and the line calls the "
        "factor a reward, a return or an advantage. Not reported for costs."
    )
    fix = "loss = -(log_prob * advantage).mean()"
    broken = """
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters())
for _ in range(4):
    choice = torch.distributions.Categorical(logits=policy(x))
    action = choice.sample()
    reward = (action == y).float()
    loss = (choice.log_prob(action) * (reward - reward.mean())).mean()  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = (choice.log_prob(action) * (reward - reward.mean())).mean()  # <-":
            "loss = -(choice.log_prob(action) * (reward - reward.mean())).mean()",
    })
    healthy = ("""
# Costs are to become rare.
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters())
for _ in range(4):
    choice = torch.distributions.Categorical(logits=policy(x))
    action = choice.sample()
    cost = (action != y).float()
    loss = (choice.log_prob(action) * (cost - cost.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# The sign is in the advantage's factor.
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters())
for _ in range(4):
    choice = torch.distributions.Categorical(logits=policy(x))
    action = choice.sample()
    reward = (action == y).float()
    loss = (-choice.log_prob(action) * (reward - reward.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.logs: weakref.WeakSet[Any] = weakref.WeakSet()

    def on_log_prob(self, distribution: Any, value: Any, result: Any, spot: Spot | None) -> None:
        node = get_node(getattr(result, "_node", None))
        if node is not None and not getattr(value, "requires_grad", False):
            self.logs.add(node)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or not self.logs or any(
            group.get("maximize") for o in list(self.session.optimizers) for group in o.param_groups
        ):
            return
        for root in backward.roots:
            for node, sign in find_signed_terms(get_node(root)):
                operands = [get_node(edge) for edge in node.edges if edge is not None]
                if sign > 0 and get_operator_name(node) == "mul" and len(operands) == 1 \
                        and self._is_log(operands[0]):
                    self._judge(node, backward)

    on_gradient = on_backward

    def _is_log(self, node: Any) -> bool:
        while hasattr(node, "edges"):
            if node in self.logs:
                return True
            if get_operator_name(node) not in RESHAPES | {"sum"} or not node.edges:
                return False
            node = get_node(node.edges[0])
        return False

    def _judge(self, node: Any, backward: Backward) -> None:
        place = place_of(find_spot(node))
        source_line = "" if place is None else place.text
        if _REWARD.search(source_line) and not _COST.search(source_line):
            self.report("log_prob times a reward enters the loss with a positive sign", place,
                        backward.spot)
