"""A moving average of weights with its two factors exchanged."""

from __future__ import annotations

import ast
import weakref
from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame, is_internal
from ....nn.module import Module
from ...events import Update
from ...finding import Level, Place
from ...places import Spot, place_of
from ...programs import edit
from ...source import parse_file
from ...weak_table import WeakTable
from ..rule import Rule

_STEPS = 6
_MAX_NUMBERS = 1 << 16  # of a parameter that is looked at
_MAX_RESIDUAL = 1e-4  # of the squared gap: by how much an average may miss the line to the weights
_MIN_SHARE, _MAX_SHARE = 0.8, 0.9999  # of the new weights that the average takes
_TOLERANCE = 0.02  # between the shares of several steps


class _Average:
    """A model that follows another one: pairs of their first weights, as they were."""

    def __init__(self, follower: Any, weight: Any, leader: Any) -> None:
        self.follower, self.weight, self.leader = weakref.ref(follower), weight, leader
        self.followed, self.led = weight._array.copy(), leader._array.copy()
        self.shares: list[float] = []


class AverageForgets(Rule):
    """Works out how far a model of the same shapes moves towards the trained one at each step."""

    id = "average-forgets"
    level = Level.LIKELY
    needs = ("after_step",)
    title = "a moving average takes nearly all of the new weights in each step: it averages nothing"
    why = (
        "average = decay * average + (1 - decay) * new, with a decay near 1; a target network's "
        "tau is the share of the new weights. With the factors exchanged, the average is the "
        "latest model plus noise. Reported when a model moved by the same 80 to 99.99 % of the "
        f"distance in {_STEPS} steps. Not reported for copies or for a decay that starts low and "
        "rises."
    )
    fix = "average.lerp_(new, 1 - decay), with a decay near 1"
    broken = """
net = nn.Linear(8, 1)
average = copy.deepcopy(net).requires_grad_(False)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    for mean, new in zip(average.parameters(), net.parameters()):
        mean.mul_(0.01).add_(new.detach(), alpha=0.99)  # <-
"""
    fixed = edit(broken, {
        "mean.mul_(0.01).add_(new.detach(), alpha=0.99)  # <-":
            "mean.mul_(0.99).add_(new.detach(), alpha=0.01)",
    })
    healthy = ("""
# A decay that rises from nothing, as average models have at the start.
net = nn.Linear(8, 1)
average = copy.deepcopy(net).requires_grad_(False)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    decay = min(0.99, (1 + step) / (10 + step))
    for mean, new in zip(average.parameters(), net.parameters()):
        mean.mul_(decay).add_(new.detach(), alpha=1 - decay)
""", """
# A copy after each step.
net = nn.Linear(8, 1)
shadow = copy.deepcopy(net).requires_grad_(False)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    F.mse_loss(net(x), t).backward()
    optimizer.step()
    shadow.load_state_dict(net.state_dict())
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.averages: list[_Average] = []
        self.known: WeakTable[None] = WeakTable()

    def after_step(self, update: Update) -> None:
        if not update.watched:
            self.averages.clear()
            return
        for average in self.averages:
            self._measure(average, update)
        if update.number <= 3:
            self._find(update)

    def _find(self, update: Update) -> None:
        """Find models in the running frames that no optimizer has and that copy a trained one."""
        optimized = self.session.optimized
        modules: list[Any] = []
        frame = find_user_frame(1)
        while frame is not None:
            if not is_internal(frame.f_code):
                scopes = [frame.f_locals, frame.f_globals,
                          getattr(frame.f_locals.get("self"), "__dict__", {})]
                modules += [v for scope in scopes for v in list(scope.values())
                            if isinstance(v, Module)]
            frame = frame.f_back
        for follower in modules:
            averages = list(follower.parameters())
            if not averages or follower in self.known or id(averages[0]) in optimized:
                continue
            for leader in modules:
                sources = list(leader.parameters())
                is_copy = len(averages) == len(sources) and id(sources[0]) in optimized and all(
                    a._array.shape == b._array.shape
                    for a, b in zip(averages, sources, strict=True))
                if is_copy and averages[0]._array.size < _MAX_NUMBERS:
                    self.known[follower] = None
                    self.averages.append(_Average(follower, averages[0], sources[0]))
                    break

    def _measure(self, average: _Average, update: Update) -> None:
        if average.follower() is None:
            return
        old, target = average.followed, average.led
        current = average.weight._array
        gap, change = (target - old).ravel(), (current - old).ravel()
        length = float(gap @ gap)
        if length > 0:
            fraction = float(change @ gap) / length
            residual = change - fraction * gap
            is_interpolation = float(residual @ residual) <= _MAX_RESIDUAL * length
            if is_interpolation and _MIN_SHARE < fraction < _MAX_SHARE:
                average.shares.append(fraction)
            else:
                average.shares.clear()
        average.followed, average.led = current.copy(), average.leader._array.copy()
        shares = average.shares[-_STEPS:]
        if len(shares) == _STEPS and np.ptp(shares) < _TOLERANCE:
            writer: Spot | None = getattr(average.weight._counter, "writer", None)
            place = place_of(writer) or find_averaging(update.spot)
            name = self.session.name_of(average.follower(), "the average")
            self.report(f"{name} takes {shares[-1]:.2%} of the new weights at each step", place,
                        share=shares[-1], steps=len(shares))


def find_averaging(step: Spot | None) -> Place | None:
    """Return the first line after an update, or in the file, that mixes weights in place."""
    place = place_of(step)
    tree = parse_file(place.file) if place is not None else None
    if place is None or tree is None:
        return None
    lines = sorted(
        node.lineno for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("lerp_", "mul_", "copy_")
    )
    later = [line for line in lines if line > place.line] or lines
    return Place(place.file, later[0]) if later else None
