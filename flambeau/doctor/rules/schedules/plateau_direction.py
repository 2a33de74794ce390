"""A plateau schedule that waits for a score to fall."""

from __future__ import annotations

import ast
import re
from typing import Any

from ...finding import Level
from ...places import Spot, place_of
from ...programs import edit
from ...source import find_statements
from ..rule import Rule

_SCORE = re.compile(r"acc|f1|auc|iou|dice|precision|recall|score|reward|return|bleu|r2|map")
_ERROR = re.compile(r"loss|err|mse|mae|nll|perplexity|ppl|cost")
_CALLS = 5
_MAX_VALUES = 64  # that are remembered
_MIN_TREND = 1e-3  # of the earlier mean


class PlateauDirection(Rule):
    """Follows what ReduceLROnPlateau is told, and what the program calls it."""

    id = "plateau-direction"
    level = Level.LIKELY
    needs = ("on_schedule",)
    title = "ReduceLROnPlateau(mode='min') receives a score that should rise, or the reverse"
    why = (
        "The better the score becomes, the sooner the rate is lowered. Reported when the argument "
        "is named accuracy, f1, ... (or loss with mode='max') and has moved against the mode in "
        f"{_CALLS} calls. Not reported for losses that rise with mode='min', which the scheduler "
        "is for."
    )
    fix = "ReduceLROnPlateau(optimizer, mode='max') for scores, 'min' for losses"
    broken = """
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.5)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)  # <-
labels = x[:, :3].argmax(1)
for _ in range(8):
    logits = net(x)
    optimizer.zero_grad()
    F.cross_entropy(logits, labels).backward()
    optimizer.step()
    accuracy = (logits.argmax(1) == labels).float().mean()
    scheduler.step(accuracy)
"""
    fixed = edit(broken, {
        "scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)  # <-":
            'scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)',
    })
    healthy = ("""
# A loss on other data that rises: the schedule is there for that.
net, other = nn.Linear(8, 3), torch.randn(64, 8)
optimizer = optim.SGD(net.parameters(), lr=2.0)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    with torch.no_grad():
        validation_loss = F.cross_entropy(net(other), y)
    scheduler.step(validation_loss)
""", """
# The negative of a score.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.5)
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
labels = x[:, :3].argmax(1)
for _ in range(8):
    logits = net(x)
    optimizer.zero_grad()
    F.cross_entropy(logits, labels).backward()
    optimizer.step()
    scheduler.step(-(logits.argmax(1) == labels).float().mean())
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.told: dict[int, list[float]] = {}
        self.constructors: dict[int, Spot | None] = {}

    def on_scheduler(self, scheduler: Any, spot: Spot | None) -> None:
        self.constructors[id(scheduler)] = spot

    def on_schedule(self, scheduler: Any, spot: Spot | None, args: tuple[Any, ...]) -> None:
        if type(scheduler).__name__ != "ReduceLROnPlateau" or spot is None or not args:
            return
        self.session.follow(scheduler)
        values = self.told.setdefault(id(scheduler), [])
        values.append(float(args[0]))
        if len(values) < _CALLS or len(values) > _MAX_VALUES:
            return
        middle = len(values) // 2
        early_mean = sum(values[:middle]) / middle
        late_mean = sum(values[middle:]) / (len(values) - middle)
        rises = late_mean > early_mean + _MIN_TREND * abs(early_mean)
        falls = late_mean < early_mean - _MIN_TREND * abs(early_mean)
        name = _find_argument(spot)
        is_reversed = (scheduler.mode == "min" and rises and _SCORE.search(name)
                       and not _ERROR.search(name)
                       or scheduler.mode == "max" and falls and _ERROR.search(name)
                       and not _SCORE.search(name))
        if is_reversed:
            self.report(f"mode='{scheduler.mode}', and '{name}' {'rises' if rises else 'falls'}",
                        self.constructors.get(id(scheduler)), spot, first=values[0],
                        last=values[-1])


def _find_argument(spot: Spot) -> str:
    """Return the source of the metric passed to `step`; empty for a negated one."""
    place = place_of(spot)
    if place is None:
        return ""
    for statement in find_statements(place.file, place.line):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
                    and node.func.attr == "step" and node.args \
                    and node.lineno <= place.line <= (node.end_lineno or 0):
                if isinstance(node.args[0], ast.UnaryOp):
                    return ""
                return ast.unparse(node.args[0]).lower()
    return ""
