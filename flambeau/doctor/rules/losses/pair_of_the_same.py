"""Pairs and similarities in which a sample meets itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...graph import RESHAPES, get_node, get_operator_name, iterate_saved_arrays
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 3
_SCALED = RESHAPES | {"_div", "mul"}
_MOST = 0.9  # share of the rows that resemble themselves most


class PairOfTheSame(Rule):
    """Compares what metric losses compare: anchors with positives, rows with columns."""

    id = "pair-of-the-same"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "a sample is compared with itself: the distance is 0 whatever the network does"
    why = (
        "A positive that is its own anchor, two views that were not augmented, or similarities "
        "(2N, 2N) with an unmasked diagonal give the loss an answer that teaches nothing. "
        f"Reported after {_TIMES} losses if anchors and positives are equal bit for bit, if both "
        "sides of a similarity product are equal and the diagonal is the target, or if the "
        "diagonal of z @ z.T is the largest entry of each row and never the target."
    )
    fix = "use another sample or another view; mask the diagonal with -inf"
    broken = """
net = nn.Linear(8, 4)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
    z = F.normalize(net(views), dim=1)
    similarity = z @ z.T / 0.1
    loss = F.cross_entropy(similarity, (torch.arange(128) + 64) % 128)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "similarity = z @ z.T / 0.1":
            "similarity = (z @ z.T / 0.1).masked_fill(torch.eye(128, dtype=torch.bool), "
            'float("-inf"))\n'
            "loss = F.cross_entropy(similarity, (torch.arange(128) + 64) % 128)",
        "loss = F.cross_entropy(similarity, (torch.arange(128) + 64) % 128)  # <-": "",
    })
    healthy = ("""
# One input twice, which dropout makes two views.
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 4))
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    a, b = F.normalize(net(x), dim=1), F.normalize(net(x), dim=1)
    loss = F.cross_entropy(a @ b.T / 0.1, torch.arange(64))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Triplets of a small batch, in which some positives are equal to their anchors.
net = nn.Linear(8, 4)
optimizer = optim.Adam(net.parameters())
for _ in range(4):
    other = torch.cat([x[:8], x[9:17]])
    loss = F.triplet_margin_loss(net(x[:16]), net(other), net(x[32:48]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Spot | None, int] = {}

    def on_loss(self, call: LossCall) -> None:
        if not call.recorded or not call.input.requires_grad or call.values.ndim != 2:
            return
        target = getattr(call.target, "_array", None)
        if target is None:
            return
        message = None
        if call.name.startswith("triplet"):
            if call.values.shape == target.shape and np.array_equal(call.values, target):
                message = "each anchor is its own positive"
        elif call.name == "cross_entropy" and call.values.shape[0] == call.values.shape[1] > 3 \
                and target.shape == call.values.shape[:1]:
            message = _name_similarity(call, target)
        if message is None:
            return
        self.times[call.spot] = self.times.get(call.spot, 0) + 1
        if self.times[call.spot] >= _TIMES:
            self.report(message, call.spot, *self.origin(call.node), losses=self.times[call.spot],
                        rows=len(call.values))


def _name_similarity(call: LossCall, target: np.ndarray) -> str | None:
    node = call.node
    while hasattr(node, "edges") and get_operator_name(node) in _SCALED and node.edges:
        node = get_node(node.edges[0])
    if not hasattr(node, "edges") or get_operator_name(node) not in ("matmul", "mm") \
            or len(node.edges) != 2 or None in node.edges:
        return None
    operands = dict(iterate_saved_arrays(node))
    first_rows, second_columns = operands.get("input"), operands.get("other")
    rows = np.arange(len(target))
    if first_rows is None or second_columns is None or not np.array_equal(first_rows,
                                                                          second_columns.T):
        return None
    if np.array_equal(target, rows):
        return "both sides of the similarities are equal, and each row's target is itself"
    diagonal = call.values.diagonal() >= call.values.max(1)
    if not (target == rows).any() and diagonal.mean() > _MOST:
        return "the greatest similarity of each row is that with itself, which is not masked"
    return None
