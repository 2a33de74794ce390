"""A cosine that is stepped past its end."""

from __future__ import annotations

from typing import Any

from ....native.foundation.user_frames import find_user_frame
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ...source import find_running_loops
from ..rule import Rule


class CosinePastItsEnd(Rule):
    """Compares a cosine's steps with its T_max."""

    id = "cosine-past-its-end"
    level = Level.LIKELY
    needs = ("on_schedule",)
    title = "a cosine schedule of T_max epochs is stepped after every batch: the rate rises again"
    why = (
        "CosineAnnealingLR rises again after T_max steps, and then falls. Reported when it is "
        "stepped in a loop over batches and has risen and fallen once. Not reported in a loop "
        "over epochs or for CosineAnnealingWarmRestarts, which does so by design."
    )
    fix = "T_max=epochs * len(loader), or scheduler.step() once per epoch"
    broken = """
net, epochs = nn.Linear(8, 3), 4
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
for epoch in range(epochs):
    for xb, yb in zip(x.split(8), y.split(8)):
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
        scheduler.step()  # <-
"""
    fixed = edit(broken, {
        "scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)":
            "scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8 * epochs)",
        "scheduler.step()  # <-": "scheduler.step()",
    })
    healthy = ("""
# Warm restarts, batch by batch.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 4)
for epoch in range(4):
    for xb, yb in zip(x.split(8), y.split(8)):
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
        scheduler.step()
""", """
# Swings on purpose, by the epoch: a snapshot is taken at each low.
net, snapshots = nn.Linear(8, 3), []
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
for epoch in range(12):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    scheduler.step()
    if scheduler.get_last_lr()[0] < 1e-6:
        snapshots.append(copy.deepcopy(net.state_dict()))
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.around: dict[int, set[tuple[str, int]]] = {}  # loops around constructors

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        self.around[id(scheduler)] = find_running_loops(find_user_frame(1))

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        period = getattr(scheduler, "T_max", 0)
        if type(scheduler).__name__ != "CosineAnnealingLR" or spot is None \
                or scheduler.last_epoch != 2 * period + 1:
            return
        if len(find_running_loops(find_user_frame(1)) - self.around.get(id(scheduler), set())) >= 2:
            self.report(f"the cosine ended {scheduler.last_epoch - period} steps ago, and its rate "
                        "has risen since", spot,
                        T_max=period, steps=scheduler.last_epoch)
