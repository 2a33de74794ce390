"""A ratio of probabilities that is 1 by construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, ModuleCall
from ...finding import Level
from ...graph import find_spot, get_array, get_node, get_operator_name, get_saved
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 8


def find_recomputation(exponential: Any) -> list[Spot | None]:
    """Where the old log-probability was computed, if that was done with a graph of its own."""
    difference = get_node(exponential.edges[0]) if exponential.edges else None
    edges: tuple[Any, ...] = getattr(difference, "edges", ())
    old = get_node(edges[1]) if len(edges) == 2 and edges[1] is not None else None
    return [] if old is None or isinstance(old, Tensor) else [find_spot(old)]


class RatioAlwaysOne(Rule):
    """Looks at the ratios that are clamped: exp of a difference of logarithms."""

    id = "ratio-always-one"
    level = Level.LIKELY
    needs = ("on_backward", "on_call")
    title = "the clipped ratio is 1 for every sample in every step: clipping does nothing"
    why = (
        "The old log-probabilities of proximal policy optimization are those of the policy that "
        "acted. If they are recomputed in every update, they equal the new ones. Reported when "
        f"all clamped ratios of {_STEPS} steps are exactly 1 although one batch was used for "
        "several updates. Not reported for a single update per batch or for ratios that are not "
        "clamped."
    )
    fix = "compute the old log_prob once, when actions are sampled, before the updates"
    broken = """
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters(), lr=0.01)
for _ in range(10):
    log_p = F.log_softmax(policy(x), 1).gather(1, y[:, None])
    old = log_p.detach()
    ratio = (log_p - old).exp()  # <-
    loss = -torch.min(ratio * t, ratio.clamp(0.8, 1.2) * t).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.Adam(policy.parameters(), lr=0.01)":
            "optimizer = optim.Adam(policy.parameters(), lr=0.01)\n"
            "with torch.no_grad():\n"
            "    old = F.log_softmax(policy(x), 1).gather(1, y[:, None])",
        "old = log_p.detach()": "ratio = (log_p - old).exp()",
        "ratio = (log_p - old).exp()  # <-": "",
    })
    healthy = ("""
# A factor that is 1 and carries a gradient, with nothing to clip.
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters(), lr=0.01)
for _ in range(10):
    log_p = F.log_softmax(policy(x), 1).gather(1, y[:, None])
    loss = -((log_p - log_p.detach()).exp() * t).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# One update with each batch: the policy that acts is the one that is updated.
policy = nn.Linear(8, 3)
optimizer = optim.Adam(policy.parameters(), lr=0.01)
for _ in range(10):
    states = torch.randn(16, 8)
    log_p = F.log_softmax(policy(states), 1)[:, 0]
    ratio = (log_p - log_p.detach()).exp()
    gain = states[:, 0]
    loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.inputs: dict[int, Any] = {}
        self.again = 0  # how often a batch was used for another update
        self.ones = 0
        self.over = False

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded and call.tensors and self.session.watching:
            array = call.tensors[0]._array
            previous, previous_step = self.inputs.get(id(call.module), (None, -1))
            self.again += previous is not None and previous_step < call.steps and (
                previous is array or np.array_equal(previous, array))
            self.inputs[id(call.module)] = array, call.steps

    def on_backward(self, backward: Backward) -> None:
        if self.over or not backward.watched:
            return
        graph = backward.graph
        for node in graph.nodes:
            users = graph.consumers.get(id(node), ())
            if get_operator_name(node) != "exp" or not any(
                get_operator_name(user) == "_clamp" for user in users
            ):
                continue
            ratios = get_array(get_saved(node, "y"))
            if ratios is None or ratios.size < 2:
                continue
            self.over = not (ratios == 1).all()
            self.ones += 1
            if not self.over and self.ones >= _STEPS and self.again >= _STEPS // 2:
                self.report("the clipped ratio is exactly 1 everywhere",
                            *find_recomputation(node), find_spot(node), backward.spot,
                            steps=self.ones)
            return

    on_gradient = on_backward
