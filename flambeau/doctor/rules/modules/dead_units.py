"""Units that are off for every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...events import Backward
from ...finding import Level
from ...graph import find_module, get_array, get_operator_name, get_saved
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 12
_ROWS = 256
_SHARE = 0.9
_MIN_UNITS = 8
_MAX_NUMBERS = 1 << 20  # of an output that is looked at


@dataclass
class _Units:
    """The units of one ReLU: which were ever on, in how many steps and rows."""

    alive: np.ndarray
    places: list[Spot]
    steps: int = 0
    rows: int = 0


class DeadUnits(Rule):
    """Notes for each ReLU which of its units were above 0 for any sample."""

    id = "units-are-dead"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = "most units of a ReLU are 0 for all samples: they have stopped learning"
    why = (
        "A unit that is never active has no gradient and stays inactive. Causes: a bias or "
        f"learning rate that is far too large, or unscaled inputs. Reported when {_SHARE:.0%} of "
        f"at least eight units were inactive for all of {_ROWS} samples and for more than {_STEPS} "
        "consecutive steps. Not reported for layers with a few dead units."
    )
    fix = "a smaller learning rate or bias, scaled inputs, LeakyReLU"
    broken = """
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))  # <-
nn.init.constant_(net[0].bias, -9.0)
net[0].bias.data[:2] = 0.0
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(16):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))  # <-":
            "net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))",
        "nn.init.constant_(net[0].bias, -9.0)": "",
        "net[0].bias.data[:2] = 0.0": "",
    })
    healthy = ("""
# Few units are on at a time, and others each time.
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
nn.init.constant_(net[0].bias, -0.8)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(16):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A single output that is mostly 0.
net = nn.Sequential(nn.Linear(8, 1), nn.ReLU())
nn.init.constant_(net[0].bias, -1.0)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(16):
    loss = F.mse_loss(net(x), t.relu())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.units: dict[Any, _Units] = {}

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for position, node in enumerate(backward.graph.nodes):
            if get_operator_name(node) not in ("relu", "relu_only"):
                continue
            output = get_array(get_saved(node, "y"))
            if output is None or output.ndim < 2 or output.shape[1] < _MIN_UNITS \
                    or output.size > _MAX_NUMBERS:
                continue
            self._look(node, output, position)

    on_gradient = on_backward

    def _look(self, node: Any, output: np.ndarray, position: int) -> None:
        places = self.origin(node)
        key = (find_module(node), places[0] if places else position, output.shape[1])
        axis = 1 if output.ndim != 3 else 2
        rows = np.moveaxis(output > 0, axis, 0).reshape(output.shape[axis], -1)
        on = np.asarray(rows.any(axis=1))
        units = self.units.get(key)
        if units is None or len(units.alive) != len(on):
            units = self.units[key] = _Units(np.zeros_like(on), places)
        units.alive |= on
        units.steps, units.rows = units.steps + 1, units.rows + len(output)
        if units.steps == _STEPS and units.rows >= _ROWS:
            dead = float(1 - units.alive.mean())
            if dead >= _SHARE:
                self.report(f"{dead:.0%} of {len(on)} units were off for every sample",
                            *places, samples=units.rows, steps=_STEPS,
                            units=[int((~units.alive).sum()), len(on)])
