"""Units that all compute the same."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ...events import Update
from ...finding import Level, Place
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_MAX_SPREAD_SHARE = 0.01  # of an update: by how much rounding may make rows differ
_ROUNDING = 1e-5  # relative, of equal sums in another order
_MIN_STEPS = 3  # updates that change equal rows alike, before a report
_MAX_ELEMENTS = 1 << 20  # of a parameter that is compared


def _has_equal_rows(array: np.ndarray) -> bool:
    """Whether the rows are equal, up to the rounding of equal sums."""
    return array.ndim >= 2 and array.shape[0] > 1 and array.size > 0 \
        and _spread(array) <= _ROUNDING * float(np.abs(array).max())


def _spread(array: np.ndarray) -> float:
    return float(np.abs(array - array[:1]).max())


def find_constant_fill(file: str) -> int | None:
    """Return the line of a file that fills weights with a constant."""
    tree = parse_file(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
                and node.func.attr in ("constant_", "ones_", "fill_", "zeros_", "zero_") \
                and "weight" in ast.unparse(node):
            return node.lineno
    return None


class UnitsAlike(Rule):
    """Compares the rows of weights after a few updates."""

    id = "units-alike"
    level = Level.CERTAIN
    needs = ("after_step",)
    title = "all units of a layer have the same weights and get the same gradients"
    why = (
        "Weights initialized to a constant stay equal: the layer acts as a single unit. Reported "
        f"when the rows are equal up to rounding after {_MIN_STEPS} updates that changed them. "
        "Not reported for zero weights that diverge at the first update (LoRA, zero-initialized "
        "branches)."
    )
    fix = "random weights: use the default, or nn.init.xavier_uniform_(weight)"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
for layer in (net[0], net[2]):
    nn.init.constant_(layer.weight, 0.1)  # <-
    nn.init.zeros_(layer.bias)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "nn.init.constant_(layer.weight, 0.1)  # <-": "nn.init.xavier_uniform_(layer.weight)",
    })
    healthy = ("""
# The last layer begins at zero: its rows come apart at once.
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
nn.init.zeros_(net[2].weight)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Scales of a normalization begin at one.
net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 1))
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(4):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[int, int] = {}
        self.before: dict[int, Any] = {}

    def on_step(self, update: Update) -> None:
        self.before = {}
        if update.watched and update.number <= _MIN_STEPS:
            self.before = {
                id(p): (p, p._array.copy()) for p in update.params
                if p.requires_grad and p._grad is not None and p._array.size < _MAX_ELEMENTS
                and _has_equal_rows(p._array)
            }

    def after_step(self, update: Update) -> None:
        for key, (parameter, old_values) in self.before.items():
            values = parameter._array
            change = float(np.abs(values - old_values).max())
            if change and _spread(values) - _spread(old_values) <= _MAX_SPREAD_SHARE * change:
                self.times[key] = self.times.get(key, 0) + 1
                if self.times[key] == _MIN_STEPS:
                    self._tell(parameter, update)

    def _tell(self, parameter: Any, update: Update) -> None:
        place = None
        if update.spot is not None:
            file = update.spot[0].co_filename
            line = find_constant_fill(file)
            place = None if line is None else Place(file, line)
        name = self.session.parameter_name(parameter)
        self.report(f"the {parameter.shape[0]} rows of {name} are equal, and stay equal",
                    place, update.spot, rows=int(parameter.shape[0]), updates=_MIN_STEPS)
