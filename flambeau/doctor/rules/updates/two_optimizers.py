"""Parameters that two optimizers update."""

from __future__ import annotations

from typing import Any

from ...events import Update, is_zero
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_STEPS = 5


class TwoOptimizers(Rule):
    """Notes which optimizers update a parameter, in turn."""

    id = "parameter-in-two-optimizers"
    level = Level.LIKELY
    needs = ("on_step",)
    title = "two optimizers alternate on the same parameter: each undoes the other's work"
    why = (
        "A generator's optimizer that also holds the discriminator's parameters trains it to be "
        "fooled. Reported when an optimizer updates all parameters of another one in addition to "
        f"its own, with gradients, and both have alternated for {_STEPS} steps. Not reported for "
        "optimizers of the same parameters (phases, restarts) or for those that follow each other."
    )
    fix = "give each optimizer the parameters of its own network"
    broken = """
generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
first = optim.Adam(critic.parameters())
second = optim.Adam([*generator.parameters(), *critic.parameters()])  # <-
for _ in range(7):
    fake = generator(torch.randn(64, 4))
    first.zero_grad()
    (F.softplus(critic(fake.detach())) + F.softplus(-critic(x))).mean().backward()
    first.step()
    second.zero_grad()
    F.softplus(-critic(fake)).mean().backward()
    second.step()
"""
    fixed = edit(broken, {
        "second = optim.Adam([*generator.parameters(), *critic.parameters()])  # <-":
            "second = optim.Adam(generator.parameters())",
    })
    healthy = ("""
# The head alone first, then everything, with another optimizer.
body, head = nn.Linear(8, 8), nn.Linear(8, 3)
first = optim.SGD(head.parameters(), lr=0.1)
second = optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(14):
    optimizer = first if step < 7 else second
    body.zero_grad()
    head.zero_grad()
    F.cross_entropy(head(torch.relu(body(x))), y).backward()
    optimizer.step()
""", """
# An auxiliary loss trains the body alone, between steps of the whole network.
body, head, helper = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 1)
both = optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
own = optim.SGD([*body.parameters(), *helper.parameters()], lr=0.01)
for _ in range(7):
    both.zero_grad()
    F.cross_entropy(head(torch.relu(body(x))), y).backward()
    both.step()
    own.zero_grad()
    F.mse_loss(helper(torch.relu(body(x))), t).backward()
    own.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.graded: dict[int, tuple[Any, set[int]]] = {}  # by optimizer
        self.turns: dict[tuple[int, int], int] = {}
        self.latest: int | None = None

    def on_step(self, update: Update) -> None:
        if not update.watched:
            return
        updated = {id(p) for p in update.params if not is_zero(p._grad)}
        key, previous = id(update.optimizer), self.latest
        self.graded[key] = update.optimizer, updated
        self.latest = key
        if previous is None or previous == key or previous not in self.graded:
            return
        pair = (min(previous, key), max(previous, key))
        self.turns[pair] = self.turns.get(pair, 0) + 1
        first, second = self.graded[previous], self.graded[key]
        smaller, larger = sorted((first, second), key=lambda entry: len(entry[1]))
        if self.turns[pair] >= 2 * _STEPS and smaller[1] and smaller[1] < larger[1]:
            names = [self.session.name_of(o, "an optimizer") for o, _ in (larger, smaller)]
            self.report(f"{names[0]} and {names[1]} alternate on the same parameters",
                        self.session.optimizers.get(larger[0]), update.spot,
                        **{"parameters of both": len(smaller[1])})
