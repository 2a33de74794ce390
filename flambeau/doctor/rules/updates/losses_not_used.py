"""Of several losses only the last is differentiated."""

from __future__ import annotations

from typing import Any

from ....native.foundation.user_frames import find_user_frame, is_internal
from ...events import Backward, LossCall
from ...finding import Level
from ...graph import get_node
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_loops
from ..rule import Rule

_TIMES = 4  # the same number of unused losses before one that is used
_PENDING = 256
_MAX_LINES = 8  # of the call stack


class LossesNotUsed(Rule):
    """Counts the losses that one line computes between two backward passes, and which of them the
    second goes through."""

    id = "losses-not-used"
    level = Level.LIKELY
    needs = ("on_loss", "on_backward")
    title = "of every few losses, only the last reaches backward(): the others have no effect"
    why = (
        "Either the loss of a step overwrites earlier ones instead of adding to them, or "
        "backward() is in the branch meant for step(). Reported when the same number of losses "
        "with a graph goes unused four times in a row. Not reported if another backward pass runs "
        "in between, as for a generator's loss computed in each step of its critic."
    )
    fix = "call backward() for every batch, or sum the losses first"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for i, (xb, tb) in enumerate(zip(x.split(8), t.split(8))):
        loss = F.mse_loss(net(xb), tb) / 4
        if (i + 1) % 4 == 0:
            loss.backward()  # <-
            optimizer.step()
            optimizer.zero_grad()
"""
    fixed = edit(broken, {
        "if (i + 1) % 4 == 0:": "loss.backward()\nif (i + 1) % 4 == 0:",
        "loss.backward()  # <-": "",
    })
    healthy = ("""
# The losses of four batches are added up.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    loss = 0.0
    for i, (xb, tb) in enumerate(zip(x.split(8), t.split(8))):
        loss = loss + F.mse_loss(net(xb), tb) / 4
        if (i + 1) % 4 == 0:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = 0.0
""", """
# The hardest of four batches is learned.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(8):
    losses = [F.mse_loss(net(xb), tb) for xb, tb in zip(x.split(8), t.split(8))]
    optimizer.zero_grad()
    max(losses, key=float).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.pending: dict[Any, list[int]] = {}  # by the lines that run: nodes, by sequence
        self.spots: dict[Any, Spot | None] = {}
        self.unused: dict[Any, list[int]] = {}  # how many, pass by pass
        self.out: set[Any] = set()  # lines whose unused losses may be meant

    def on_loss(self, call: LossCall) -> None:
        node = get_node(getattr(call.result, "_node", None))
        if not call.recorded or node is None:
            return
        lines = list_running_lines()
        self.spots[lines] = call.spot
        sequences = self.pending.setdefault(lines, [])
        if len(sequences) < _PENDING:
            sequences.append(node.sequence)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            self.pending.clear()
            self.unused.clear()
            return
        used = {node.sequence for node in backward.graph.nodes}
        pending, self.pending = self.pending, {}
        for lines, sequences in pending.items():
            is_used = [sequence in used for sequence in sequences]
            if not is_used[-1] or any(is_used[:-1]) or len(pending) > 1 or len(is_used) >= _PENDING:
                self.out.add(lines)
            elif lines not in self.out:
                self._note(lines, len(is_used) - 1, backward)

    def _note(self, lines: Any, count: int, backward: Backward) -> None:
        counts = self.unused.setdefault(lines, [])
        counts.append(count)
        if count == 0 or counts[-_TIMES:] != [count] * _TIMES:
            return
        self.out.add(lines)
        spot = self.spots[lines]
        spots = [spot, backward.spot] if _is_deeper(spot, backward.spot) \
            else [backward.spot, spot]
        self.report(f"{count} of {count + 1} losses computed here are never differentiated",
                    *spots, **{"unused before each pass": count})


def _is_deeper(loss: Spot | None, backward: Spot | None) -> bool:
    """Whether a loss is computed in a loop of its own, which backward() comes after."""
    if loss is None or backward is None:
        return False
    inner, outer = place_of(loss), place_of(backward)
    return inner is not None and outer is not None and inner.function == outer.function and len(
        find_loops(inner.file, inner.line)) > len(find_loops(outer.file, outer.line))


def list_running_lines() -> tuple[Any, ...]:
    """The user's functions that are running, each with its place in the bytecode."""
    frame = find_user_frame(1)
    lines: list[tuple[Any, int]] = []
    while frame is not None and len(lines) < _MAX_LINES:
        if not is_internal(frame.f_code):
            lines.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(lines)
