"""The last output of a recurrent network that reads both ways."""

from __future__ import annotations

import weakref
from typing import Any

from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 3


class LastOfBothWays(Rule):
    """Looks for `out[:, -1]` of bidirectional layers."""

    id = "last-step-of-both-ways"
    level = Level.LIKELY
    needs = ("on_layer", "on_function")
    title = "out[:, -1] of a bidirectional layer: its backward half has read only one step"
    why = (
        "The backward direction reads the last position first: its summary of the whole sequence "
        f"is at position 0. Reported at the {_TIMES}rd time that all features of the last position "
        "are taken. Not reported if the halves are separated."
    )
    fix = "torch.cat([h[-2], h[-1]], dim=1), with out, h = rnn(x); for an LSTM out, (h, c) = rnn(x)"
    broken = """
rnn, head = nn.GRU(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)
optimizer = optim.Adam([*rnn.parameters(), *head.parameters()])
rows = torch.randn(64, 6, 4)
for _ in range(4):
    out, h = rnn(rows)
    loss = F.cross_entropy(head(out[:, -1]), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(head(out[:, -1]), y)  # <-":
            "loss = F.cross_entropy(head(torch.cat([h[-2], h[-1]], dim=1)), y)",
    })
    healthy = (edit(broken, {
        # Each half where it has read all.
        "loss = F.cross_entropy(head(out[:, -1]), y)  # <-":
            "both = torch.cat([out[:, -1, :8], out[:, 0, 8:]], dim=1)\n"
            "loss = F.cross_entropy(head(both), y)",
    }), edit(broken, {
        # One way.
        "rnn, head = nn.GRU(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)":
            "rnn, head = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 3)",
        "loss = F.cross_entropy(head(out[:, -1]), y)  # <-":
            "loss = F.cross_entropy(head(out[:, -1]), y)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.output: Any = lambda: None  # of a layer that reads both ways, weakly
        self.times: dict[Spot | None, int] = {}

    def on_layer(self, call: ModuleCall) -> None:
        if getattr(call.module, "bidirectional", False) and call.recorded \
                and getattr(call.module, "batch_first", False) and isinstance(call.output, tuple) \
                and isinstance(call.output[0], Tensor) and call.output[0]._array.ndim == 3:
            steps = call.output[0]._array.shape[1]
            self.output = weakref.ref(call.output[0]) if steps > 2 else (lambda: None)

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        takes_all_features = name == "last" and all(index == slice(None) for index in args[1][2:])
        if takes_all_features and args[0] is self.output():
            self.times[spot] = self.times.get(spot, 0) + 1
            if self.times[spot] == _TIMES:
                self.report("the last position of a bidirectional layer is taken", spot)
