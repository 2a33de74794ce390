"""The last output of a recurrent network over padding."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import ModuleCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 3


class LastOfPadded(Rule):
    """Compares the ends of the sequences that a recurrent layer is given."""

    id = "last-step-is-padding"
    level = Level.LIKELY
    needs = ("on_layer", "on_function")
    title = "the last output of padded sequences is used: for most of them it belongs to padding"
    why = (
        "out[:, -1] is the state after the trailing padding, which has overwritten part of the "
        "sequence's content. Reported at the third time it is taken from sequences of which at "
        "least half end in the same vector, at least twice. Not reported for packed sequences or "
        "leading padding."
    )
    fix = "out[torch.arange(len(out)), lengths - 1], or pack_padded_sequence and its last state"
    broken = """
embed, head = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 3)
rnn = nn.GRU(8, 8, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embed, rnn, head]).parameters())
lengths = torch.randint(2, 7, (64,))
tokens = torch.randint(1, 9, (64, 7)).masked_fill(torch.arange(7) >= lengths[:, None], 0)
for _ in range(4):
    out, _ = rnn(embed(tokens))
    loss = F.cross_entropy(head(out[:, -1]), y)  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(head(out[:, -1]), y)  # <-":
            "loss = F.cross_entropy(head(out[torch.arange(64), lengths - 1]), y)",
    })
    healthy = ("""
# Padded at the front: all sequences end where they end.
embed, head = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 3)
rnn = nn.GRU(8, 8, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embed, rnn, head]).parameters())
starts = torch.randint(1, 5, (64,))
tokens = torch.randint(1, 9, (64, 7)).masked_fill(torch.arange(7) < starts[:, None], 0)
for _ in range(4):
    out, _ = rnn(embed(tokens))
    loss = F.cross_entropy(head(out[:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Sequences of one length, each with an end of its own.
rnn, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)
optimizer = optim.Adam(nn.ModuleList([rnn, head]).parameters())
sequences = torch.randn(64, 5, 8).cumsum(1)
for _ in range(4):
    out, _ = rnn(sequences)
    loss = F.cross_entropy(head(out[:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.output: Any = lambda: None  # of a recurrent layer over padding, weakly
        self.share = 0.0
        self.times: dict[Spot | None, int] = {}

    def on_layer(self, call: ModuleCall) -> None:
        layer = call.module
        if not getattr(layer, "batch_first", False) or not hasattr(layer, "num_layers") \
                or not call.tensors or not isinstance(call.output, tuple):
            return
        array, output = call.tensors[0]._array, call.output[0]
        if array.ndim == 3 and min(array.shape) > 1 and isinstance(output, Tensor):
            self.share = _measure_padding(array)
            self.output = weakref.ref(output) if self.share >= 0.5 else (lambda: None)

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name == "last" and args[0] is self.output():
            self.times[spot] = self.times.get(spot, 0) + 1
            if self.times[spot] >= _TIMES:
                self.report("the last output of sequences that end in padding is taken", spot,
                            **{"share of padded sequences": self.share})


def _measure_padding(array: np.ndarray) -> float:
    """Return the share of sequences that end in the same vector, at least twice."""
    ends_twice = (array[:, -1] == array[:, -2]).all(-1)
    if not ends_twice.any():
        return 0.0
    ends_alike = (array[:, -1] == array[ends_twice][0, -1]).all(-1)
    return float((ends_twice & ends_alike).mean())
