"""A loss that the next statement replaces."""

from __future__ import annotations

import ast
from typing import Any

from ...events import Backward, LossCall
from ...finding import Level, Place
from ...graph import get_node
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_statements, parse_file
from ..rule import Rule

_TIMES = 3
_MAX_LOSSES = 64  # that are remembered


class LossOverwritten(Rule):
    """Looks for losses that no backward pass goes through, and what their variable is given
    next."""

    id = "loss-overwritten"
    level = Level.LIKELY
    needs = ("on_loss", "on_backward")
    title = "a loss is overwritten by the next one instead of being added to it"
    why = (
        "The first loss has no effect on training. Reported when a loss with a graph is assigned "
        "to a variable that a later statement of the same block reassigns without reading it, and "
        f"{_TIMES} consecutive backward passes do not reach it."
    )
    fix = "loss = loss + second, or loss += second"
    broken = """
net, head = nn.Linear(8, 1), nn.Linear(8, 3)
optimizer = optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for _ in range(5):
    loss = F.mse_loss(net(x), t)
    loss = 0.5 * F.cross_entropy(head(x), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = 0.5 * F.cross_entropy(head(x), y)  # <-":
            "loss = loss + 0.5 * F.cross_entropy(head(x), y)",
    })
    healthy = (edit(broken, {
        # The first is only looked at.
        "loss = F.mse_loss(net(x), t)": "aside = F.mse_loss(net(x), t)",
        "optimizer = optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)":
            "optimizer = optim.SGD(head.parameters(), lr=0.1)",
        "loss = 0.5 * F.cross_entropy(head(x), y)  # <-": "loss = F.cross_entropy(head(x), y)",
    }), edit(broken, {
        # Each has a step of its own.
        "loss = F.mse_loss(net(x), t)":
            "loss = F.mse_loss(net(x), t)\nloss.backward()\noptimizer.step()\n"
            "optimizer.zero_grad()",
        "loss = 0.5 * F.cross_entropy(head(x), y)  # <-": "loss = F.cross_entropy(head(x), y)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.losses: dict[Spot, int] = {}  # since the latest pass: the number of the node
        self.times: dict[Spot, int] = {}

    def on_loss(self, call: LossCall) -> None:
        node = get_node(getattr(call.result, "_node", None))
        if call.recorded and node is not None and call.spot is not None \
                and len(self.losses) < _MAX_LOSSES:
            self.losses[call.spot] = node.sequence

    def on_backward(self, backward: Backward) -> None:
        losses, self.losses = self.losses, {}
        if not backward.watched:
            self.times.clear()
            return
        used = {node.sequence for node in backward.graph.nodes}
        for spot, sequence in losses.items():
            count = self.times[spot] = 0 if sequence in used else self.times.get(spot, 0) + 1
            if count == _TIMES:
                self._judge(spot, backward)

    def _judge(self, spot: Spot, backward: Backward) -> None:
        place = place_of(spot)
        if place is None:
            return
        line = find_overwriting(place)
        if line is not None:
            self.report("the loss of an earlier statement is overwritten before it is used",
                        Place(place.file, line, place.function), place, backward.spot,
                        **{"passes without it": _TIMES})


def find_overwriting(place: Place) -> int | None:
    """Return the line in the same block that reassigns a line's variable before it is read."""
    for statement in find_statements(place.file, place.line):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            for following in _list_following(parse_file(place.file), statement):
                reads = any(isinstance(child, ast.Name) and child.id == name
                            and isinstance(child.ctx, ast.Load) for child in ast.walk(following))
                if reads:
                    return None
                if isinstance(following, ast.Assign) and any(
                    isinstance(target, ast.Name) and target.id == name
                    for target in following.targets
                ):
                    return following.lineno
    return None


def _list_following(tree: ast.AST | None, statement: ast.stmt) -> list[ast.stmt]:
    """The statements that follow one in its block."""
    for node in ast.walk(tree) if tree is not None else ():
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and statement in block:
                return block[block.index(statement) + 1:]
    return []
