"""The first batch of a loader, at every step."""

from __future__ import annotations

from typing import Any

from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


class FirstBatchAgain(Rule):
    """Counts iterators of a loader that gave a single batch."""

    id = "first-batch-again"
    level = Level.LIKELY
    needs = ("on_batch", "on_step")
    title = "next(iter(loader)) starts a new pass in every step: it always returns the first batch"
    why = (
        "Reported when a loader without shuffling was restarted five times for one batch each, "
        "with an update after each. Not reported for loaders that shuffle, which return different "
        "batches."
    )
    fix = "for batch in loader: ..., or create the iterator once: batches = iter(loader)"
    broken = """
loader = DataLoader(TensorDataset(x, t), batch_size=16)
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    xb, tb = next(iter(loader))  # <-
    optimizer.zero_grad()
    F.mse_loss(net(xb), tb).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "for _ in range(8):":
            "for _ in range(2):\n"
            "    for xb, tb in loader:\n"
            "        optimizer.zero_grad()\n"
            "        F.mse_loss(net(xb), tb).backward()\n"
            "        optimizer.step()",
        "xb, tb = next(iter(loader))  # <-": "",
        "optimizer.zero_grad()": "",
        "F.mse_loss(net(xb), tb).backward()": "",
        "optimizer.step()": "",
    })
    healthy = ("""
# One batch on purpose: it is fetched once.
xb, tb = next(iter(DataLoader(TensorDataset(x, t), batch_size=16)))
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    F.mse_loss(net(xb), tb).backward()
    optimizer.step()
""", """
# The loader shuffles: a random batch at each step.
loader = DataLoader(TensorDataset(x, t), batch_size=16, shuffle=True)
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    xb, tb = next(iter(loader))
    optimizer.zero_grad()
    F.mse_loss(net(xb), tb).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.last: dict[int, tuple[Any, int]] = {}  # by loader: its iterator, updates by then
        self.times: dict[int, int] = {}

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        loader = self.session.loaders[iterator]
        key, updates = id(loader), self.session.updates
        previous = self.last.get(key)
        self.last[key] = iterator, updates
        try:
            has_several = len(loader) > 1
        except TypeError:
            has_several = False
        shuffles = type(getattr(loader, "sampler", None)).__name__ != "SequentialSampler"
        if previous is None or not has_several or shuffles:
            return
        is_restarted = previous[0] is not iterator and previous[0]._num_yielded == 1
        self.times[key] = self.times.get(key,
                                         0) + 1 if is_restarted and updates > previous[1] else 0
        if self.times[key] >= 4:
            self.report("each step restarts the loader and trains on its first batch", spot,
                        **{"times": self.times[key] + 1, "batches in the loader": len(loader)})

    def on_step(self, update: Update) -> None:
        pass
