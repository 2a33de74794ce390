"""A generator that is seeded anew at every step."""

from __future__ import annotations

from typing import Any

from ...events import Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 5


class Reseeded(Rule):
    """Counts calls of manual_seed with the same seed between updates."""

    id = "reseeded-each-step"
    level = Level.LIKELY
    needs = ("on_seed", "on_step")
    title = "manual_seed() with the same seed in every step: all steps draw the same numbers"
    why = (
        "Dropout masks, noise and augmentations repeat in every step. Reported at the sixth call "
        "if at most two updates of one optimizer separate consecutive calls, and in __getitem__ "
        "after four batches. Not reported for seeds that change or if each seed starts another "
        "training run."
    )
    fix = "seed once, before the loop"
    broken = """
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    torch.manual_seed(0)  # <-
    loss = F.mse_loss(net(F.dropout(x, 0.2)), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.SGD(net.parameters(), lr=0.1)":
            "optimizer = optim.SGD(net.parameters(), lr=0.1)\ntorch.manual_seed(0)",
        "torch.manual_seed(0)  # <-": "",
    })
    healthy = ("""
# Another seed at each step.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    torch.manual_seed(step)
    loss = F.mse_loss(net(F.dropout(x, 0.2)), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Several models from one seed, each trained for a step.
for _ in range(8):
    torch.manual_seed(0)
    net = nn.Linear(8, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    F.mse_loss(net(x), t).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.last: dict[Spot | None, tuple[Any, int]] = {}
        self.continued: dict[Spot | None, bool] = {}  # whether none but running trainings stepped
        self.times: dict[Spot | None, int] = {}
        self.samples: dict[Spot | None, tuple[Any, int]] = {}  # in __getitem__, since an update
        self.batches: dict[Spot | None, int] = {}  # updates whose samples were seeded alike

    def on_step(self, update: Update) -> None:
        for spot in self.last:
            self.continued[spot] = self.continued.get(spot, True) and update.number > 1
        for spot, (seed, times) in self.samples.items():
            self.batches[spot] = self.batches.get(spot, 0) + (times > 1)
            if self.batches[spot] >= 4 and 4 * self.batches[spot] >= 3 * self.session.updates:
                self.report("the generator is seeded with the same number for every sample", spot,
                            seed=int(seed), samples=times, updates=self.batches[spot])
        self.samples.clear()

    def on_seed(self, seed: Any, spot: Spot | None) -> None:
        if spot is not None and spot[0].co_name == "__getitem__":
            last_seed, times = self.samples.get(spot, (seed, 0))
            self.samples[spot] = seed, (times + 1 if last_seed == seed else -1_000_000)
            return
        updates = self.session.updates
        last_seed, last_update = self.last.get(spot, (None, 0))
        self.last[spot] = seed, updates
        is_repeated = last_seed == seed and 0 < updates - last_update <= 2 \
            and self.continued.pop(spot, False)
        self.times[spot] = self.times.get(spot, 0) + 1 if is_repeated else 0
        if self.times[spot] >= _TIMES:
            self.report("the generator is seeded with the same number in every step", spot,
                        seed=int(seed), times=self.times[spot] + 1)
