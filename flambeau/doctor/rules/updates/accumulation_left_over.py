"""Gradients of an epoch's last batches that wait for the next epoch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...events import Backward, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_UPDATES = 4096  # that are remembered


class AccumulationLeftOver(Rule):
    """Counts the passes of each update."""

    id = "accumulation-left-over"
    level = Level.LIKELY
    needs = ("on_backward", "on_step")
    title = (
        "an epoch's last batches are too few for an update, so the next epoch uses their "
        "gradients too"
    )
    why = (
        "If the epoch's length is not a multiple of k, (i + 1) % k == 0 never holds for the "
        "remaining batches. Their gradients stay and are added to those of the next k. Reported "
        "when exactly one update in each epoch follows more passes than the others, twice. Not "
        "reported if i continues across epochs."
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
        self.skip = 0  # updates whose passes were not all seen
        self.woken = 0  # `trusted_from`, which grows with each rest
        self.done = False

    def on_backward(self, backward: Backward) -> None:
        if self.session.trusted_from != self.woken:
            self.woken, self.counts, self.skip = self.session.trusted_from, [], 1
        self.passes += 1

    def on_step(self, update: Update) -> None:
        passes, self.passes = self.passes, 0
        if self.skip:
            self.skip -= 1
            return
        self.counts.append(passes)
        fewest = min(self.counts)
        if self.done or passes <= fewest or fewest < 2:
            return
        self.done = len(self.session.optimizers) > 1 or len(self.counts) > _MAX_UPDATES
        uneven = [i for i, count in enumerate(self.counts) if count != fewest]
        last = self.counts[uneven[0]]
        periods = {later - earlier for earlier, later in pairwise(uneven)}
        if not self.woken:
            periods.add(uneven[0])  # the first epoch began with the first update
        regular = len(periods) <= 1 and all(self.counts[i] == last for i in uneven) \
            and (not self.woken or max(periods, default=3) > 2)
        self.done |= not regular or last >= 2 * fewest
        if not self.done and len(uneven) >= (3 if self.woken else 2):
            self.done = True
            self._report(update.spot, fewest, last, max(periods))

    def _report(self, spot: Spot | None, fewest: int, last: int, period: int) -> None:
        self.report(f"{last - fewest} batches at the end of an epoch are added to the next epoch's "
                    f"first {fewest}", spot, **{"updates an epoch": period, "passes": last})
