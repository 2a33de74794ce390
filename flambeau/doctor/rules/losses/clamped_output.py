"""Outputs that are clamped before the loss, which gives them no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...graph import find_spot, get_array, get_operator_name, get_saved
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 3
_SHARE = 0.2  # of the outputs


class ClampedOutput(Rule):
    """Looks at losses whose input was clamped, and counts what the bounds have cut."""

    id = "clamped-before-the-loss"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "outputs outside the bounds are clamped: they are wrong and get no gradient"
    why = (
        "clamp() is flat outside its bounds, so the outputs that are most wrong never move. "
        f"Reported when at least {_SHARE:.0%} of the outputs are cut and most of their targets lie "
        f"within the bounds, in {_TIMES} losses. Not reported for the few that an epsilon keeps "
        "away from 0 and 1."
    )
    fix = "torch.sigmoid() for outputs between 0 and 1; clamp only what is displayed"
    broken = """
net, goal = nn.Linear(8, 1), torch.sigmoid(t)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    loss = F.mse_loss(net(x).clamp(0, 1), goal)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.mse_loss(net(x).clamp(0, 1), goal)  # <-":
            "loss = F.mse_loss(net(x).sigmoid(), goal)",
    })
    healthy = (edit(broken, {
        # An epsilon, for a logarithm.
        "loss = F.mse_loss(net(x).clamp(0, 1), goal)  # <-":
            "loss = F.binary_cross_entropy(net(x).sigmoid().clamp(1e-6, 1 - 1e-6), goal)",
    }), edit(broken, {
        # Targets at the bounds: what is beyond them is right.
        "loss = F.mse_loss(net(x).clamp(0, 1), goal)  # <-":
            "loss = F.mse_loss(net(x).clamp(0, 1), (goal > 0.5).float())",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Spot | None, int] = {}

    def on_loss(self, call: LossCall) -> None:
        node, target = call.node, getattr(call.target, "_array", None)
        if node is None or not call.recorded or "clamp" not in get_operator_name(node) \
                or target is None or target.shape != call.values.shape or target.dtype.kind != "f":
            return
        unclamped = get_array(get_saved(node, "input"))
        if unclamped is None or unclamped.size != call.values.size:
            return
        is_clamped = unclamped.reshape(-1) != call.values.reshape(-1)
        low, high = call.values.min(), call.values.max()
        is_reachable = (target > low) & (target < high)
        loses_gradients = is_clamped.mean() >= _SHARE \
            and np.mean(is_reachable.reshape(-1)[is_clamped]) > 0.5
        count = self.times.get(call.spot, 0) + 1 if loses_gradients else 0
        self.times[call.spot] = count
        if count >= _TIMES:
            self.report(f"{is_clamped.mean():.0%} of the outputs are outside the bounds of a clamp",
                        find_spot(node), call.spot, share=float(is_clamped.mean()))
