"""A code of positions that is added along the axis of the samples."""

from __future__ import annotations

from typing import Any

from ...events import Backward, LossCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class PositionsOverBatch(Rule):
    """Looks at what is added to (N, T, E): constants that differ by sample, not by position."""

    id = "positions-over-the-batch"
    level = Level.LIKELY
    needs = ("on_operand",)
    title = (
        "the positional encoding varies along the batch: all positions of a sample get the same "
        "code"
    )
    why = (
        "A table (length, 1, E) is meant for (T, N, E). Added to (N, T, E), it encodes each "
        "sample's index in the batch and no position. Reported when a constant (N, 1, E) is added "
        "to (N, T, E) and the layers are batch_first or the loss has N rows. Not reported for "
        "layers that take (T, N, E)."
    )
    fix = "x + pe[: x.size(1)].transpose(0, 1), for a batch-first x"
    broken = """
pe = torch.sin(torch.arange(50.0)[:, None, None] * torch.exp(-torch.arange(8.0)))
embed, head = nn.Embedding(9, 8), nn.Linear(8, 3)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embed, head, layer]).parameters())
tokens = torch.randint(0, 9, (64, 6))
for tb, yb in zip(tokens.split(16), y.split(16)):
    e = embed(tb)
    e = e + pe[: e.size(0)]  # <-
    loss = F.cross_entropy(head(layer(e).mean(1)), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "e = e + pe[: e.size(0)]  # <-": "e = e + pe[: e.size(1)].transpose(0, 1)",
    })
    healthy = ("""
# Layers that take (T, N, E).
pe = torch.randn(50, 1, 8)
embed, head = nn.Embedding(9, 8), nn.Linear(8, 3)
layer = nn.TransformerEncoderLayer(8, 2, 16)
optimizer = optim.Adam(nn.ModuleList([embed, head, layer]).parameters())
tokens = torch.randint(0, 9, (6, 64))
for _ in range(3):
    e = embed(tokens) + pe[:6]
    loss = F.cross_entropy(head(layer(e).mean(0)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# What is known of each sample, added at all of its positions.
embed, head, rnn = nn.Embedding(9, 8), nn.Linear(8, 3), nn.GRU(8, 8, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embed, head, rnn]).parameters())
for _ in range(4):
    choice = torch.randperm(64)[:32]
    e = embed(torch.randint(0, 9, (32, 6))) + x[choice][:, None]
    loss = F.cross_entropy(head(rnn(e)[0][:, -1]), y[choice])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.added: list[tuple[Spot | None, Any, tuple[int, ...]]] = []
        self.before: dict[Spot | None, Any] = {}
        self.times: dict[Spot | None, int] = {}
        self.rows: set[int] = set()  # of the losses since the latest pass

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        a, b = recorded._array.shape, constant._array.shape
        if name == "_add" and len(a) == 3 and b == (a[0], 1, a[2]) and min(a) > 1:
            self.added.append((spot, constant._array, a))

    def on_loss(self, call: LossCall) -> None:
        target = getattr(call.target, "_array", None)
        if call.recorded and target is not None and target.ndim == 1 and call.values.ndim:
            self.rows.add(call.values.shape[0])

    def on_backward(self, backward: Backward) -> None:
        for spot, values, shape in self.added:
            previous = self.before.get(spot)
            self.before[spot] = values = values.copy()
            varies = len(values) > 1 and (values[0] != values[1]).any()
            if previous is not None and previous.shape == values.shape and varies \
                    and (previous == values).all() and self._is_batch_first(shape):
                self.times[spot] = self.times.get(spot, 0) + 1
                if self.times[spot] >= 2:
                    self.report("a constant that differs from sample to sample is added to all "
                                "positions", spot, shapes=f"{shape} + {values.shape}")
        self.added.clear()
        self.rows.clear()

    on_gradient = on_backward

    def _is_batch_first(self, shape: tuple[int, ...]) -> bool:
        orders = {
            module.batch_first for root in list(self.session.roots) for module in root.modules()
            if "batch_first" in vars(module)
        }
        return orders == {True} or (not orders and shape[0] in self.rows and shape[0] != shape[1])
