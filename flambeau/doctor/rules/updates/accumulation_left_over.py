"""Gradients of an epoch's last batches that wait for the next epoch."""

from __future__ import annotations

from typing import Any

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class AccumulationLeftOver(Rule):
    """Counts the passes of each update."""

    id = "accumulation-left-over"
    level = Level.LIKELY
    needs = ("on_backward", "on_step")
    title = "an epoch's last batches are too few for an update: the next epoch uses them too"
    why = (
        "(i + 1) % k == 0 is never true of the batches that are left when the epoch's length is "
        "no multiple of k. Their gradients stay and are added to those of the next k. Told when "
        "one update in each epoch, and no other, follows more passes than the rest, twice. Silent "
        "where i counts on over epochs."
    )
    fix = "if (i + 1) % k == 0 or i + 1 == len(loader)"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for i, (xb, tb) in enumerate(zip(x.split(7), t.split(7))):
        (F.mse_loss(net(xb), tb) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()  # <-
            optimizer.zero_grad()
"""
    fixed = edit(broken, {
        "if (i + 1) % 4 == 0:": "if (i + 1) % 4 == 0 or i == 9:",
        "optimizer.step()  # <-": "optimizer.step()",
    })
    healthy = ("""
# Batches are counted on.
net, i = nn.Linear(8, 1), 0
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for xb, tb in zip(x.split(7), t.split(7)):
        (F.mse_loss(net(xb), tb) / 4).backward()
        i += 1
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
""", """
# More and more batches for each update.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for k in (2, 2, 2, 3, 3, 3, 4, 4, 4):
    optimizer.zero_grad()
    for xb, tb in list(zip(x.split(7), t.split(7)))[:k]:
        (F.mse_loss(net(xb), tb) / k).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.passes = 0
        self.counts: list[int] = []  # passes of each update
        self.done = False

    def on_backward(self, backward: Backward) -> None:
        self.passes += 1

    def on_step(self, update: Update) -> None:
        self.counts.append(self.passes)
        self.passes = 0
        few = self.counts[0]
        if self.done or self.counts[-1] <= few or few < 2 or self.session.rested:
            return
        self.done = len(self.session.optimizers) > 1 or len(self.counts) > 4096
        uneven = [i for i, count in enumerate(self.counts) if count != few]
        period, more = uneven[0], self.counts[uneven[0]]
        regular = uneven == [period * (i + 1) for i in range(len(uneven))] and all(
            self.counts[i] == more for i in uneven)
        self.done |= not regular or more >= 2 * few
        if not self.done and len(uneven) >= 2:
            self.done = True
            self._report(update.spot, few, more, period)

    def _report(self, spot: Spot | None, few: int, more: int, period: int) -> None:
        self.report(f"{more - few} batches at the end of an epoch are added to the next epoch's "
                    f"first {few}", spot, **{"updates an epoch": period, "passes": more})
