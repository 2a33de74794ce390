"""A graph that reaches back into earlier steps and grows."""

from __future__ import annotations

from typing import Any

from ...events import Backward
from ...finding import Level
from ...graph import find_spot
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 4


class GrowingGraph(Rule):
    """Counts the nodes of a backward pass that are older than the pass before it."""

    id = "graph-grows"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "every backward pass also traverses all earlier steps: a state is not detached"
    why = (
        "A hidden state or another tensor carried from batch to batch brings along the graphs of "
        "all earlier batches; retain_graph=True only hides the error. Reported when the part of "
        f"the graph older than the last update grows {_TIMES} times in a row."
    )
    fix = "detach the carried tensor: state = state.detach()"
    broken = """
cell, head = nn.RNNCell(8, 8), nn.Linear(8, 1)
optimizer = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.0)
state = torch.zeros(64, 8)
for _ in range(8):
    state = cell(x, state)
    loss = F.mse_loss(head(state), t)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # <-
"""
    fixed = edit(broken, {
        "state = cell(x, state)": "state = cell(x, state.detach())",
        "loss.backward(retain_graph=True)  # <-": "loss.backward()",
    })
    healthy = ("""
# Sequences that get longer: the graph grows, and is new each time.
cell, head = nn.RNNCell(8, 8), nn.Linear(8, 1)
optimizer = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
for length in range(1, 9):
    state = torch.zeros(64, 8)
    for _ in range(length):
        state = cell(x, state)
    loss = F.mse_loss(head(state), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# One graph, several times, on purpose.
net = nn.Linear(8, 2)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(6):
    output = net(x)
    optimizer.zero_grad()
    for column in range(2):
        output[:, column].mean().backward(retain_graph=True)
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.counts: dict[Spot | None, list[int]] = {}
        self.last: dict[Spot | None, int] = {}  # the newest node of the pass before

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            self.counts.clear()
            return
        nodes = backward.graph.nodes
        if not nodes:
            return
        newest = self.last.get(backward.spot)
        self.last[backward.spot] = nodes[-1].sequence
        counts = self.counts.setdefault(backward.spot, [])
        old = 0 if newest is None else sum(node.sequence <= newest for node in nodes)
        if not old or (counts and old <= counts[-1]):
            counts.clear()
        if old:
            counts.append(old)
        if len(counts) > _TIMES:
            carried = next(n for n in reversed(nodes) if n.sequence <= (newest or 0))
            self.report("the graph of this backward pass contains those of all earlier steps",
                        backward.spot, find_spot(carried),
                        **{"nodes of earlier steps": counts[-4:]})

    on_gradient = on_backward
