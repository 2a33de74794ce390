"""Weights whose gradient is exactly zero, step after step."""

from __future__ import annotations

from typing import Any

from ...events import Backward, Update, is_zero
from ...finding import Level, Place
from ...graph import find_spot, get_array, get_operator_name, get_saved
from ...places import Spot
from ...programs import edit
from ..modules.units_alike import find_constant_fill
from ..rule import Rule

_STEPS = 6
_FLAT = frozenset(("sign", "sgn", "round", "floor", "ceil", "trunc"))


class ZeroGradients(Rule):
    """Counts steps at which a weight has a gradient of zeros, while others have not."""

    id = "gradient-always-zero"
    level = Level.LIKELY
    needs = ("on_step", "on_backward")
    title = "a weight's gradient is exactly zero in every step: it learns nothing"
    why = (
        "Consecutive layers of zeros block all gradients, and so do a ReLU that is off for every "
        "sample and sign() or round(). Reported when a weight's gradient was all zeros in the "
        f"first {_STEPS} steps while another parameter of the same optimizer had one, or two "
        "matrices are zero. Not reported for losses of 0 or for weights without a gradient."
    )
    fix = "random weights; a smaller learning rate or LeakyReLU if units are permanently off"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
for layer in (net[0], net[2]):
    nn.init.zeros_(layer.weight)  # <-
    nn.init.zeros_(layer.bias)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(8):
    loss = F.mse_loss(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "nn.init.zeros_(layer.weight)  # <-": "nn.init.xavier_uniform_(layer.weight)",
    })
    healthy = ("""
# One of two factors begins at zero: the other one waits for a single step.
down, up = nn.Linear(8, 2, bias=False), nn.Linear(2, 1, bias=False)
nn.init.zeros_(up.weight)
optimizer = optim.SGD([*down.parameters(), *up.parameters()], lr=0.1)
for _ in range(8):
    loss = F.mse_loss(up(down(x)), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A margin that is soon reached: all gradients are zero.
net = nn.Linear(8, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    loss = F.relu(net(x).mean() - 0.1).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.zero: dict[int, dict[int, int]] = {}
        self.count: dict[int, int] = {}
        self.origins: dict[int, Spot | None] = {}  # where parameters were constructed by hand
        self.off: Spot | None = None  # a ReLU that is off everywhere
        self.flat: tuple[str, Spot | None] | None = None  # an operator whose derivative is 0

    def on_parameter(self, parameter: Any, source: Any, spot: Spot | None) -> None:
        self.origins[id(parameter)] = spot

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or self.session.clock.passes > 3 * _STEPS:
            return
        self.off = self.flat = None
        for node in backward.graph.nodes:
            if get_operator_name(node) in _FLAT:
                self.flat = get_operator_name(node), find_spot(node)
            if get_operator_name(node) in ("relu_only", "relu"):
                output = get_array(get_saved(node, "y"))
                if output is not None and output.size > 1 and not output.any():
                    self.off = next(iter(self.origin(node)), None)

    def on_step(self, update: Update) -> None:
        key = id(update.optimizer)
        count = self.count[key] = self.count.get(key, 0) + 1
        if not update.watched or count > _STEPS:
            return
        zero = self.zero.setdefault(key, {})
        graded = [p for p in update.params if p._grad is not None]
        silent = [p for p in graded if is_zero(p._grad)]
        blocked = [p for p in silent if p._array.ndim > 1 and not p._array.any()]
        if len(silent) == len(graded) and len(blocked) < 2:
            return
        for parameter in silent:
            zero[id(parameter)] = zero.get(id(parameter), 0) + 1
        if count < _STEPS:
            return
        stuck = [p for p in silent if zero[id(p)] == _STEPS and p._array.ndim > 1]
        if stuck and len(silent) > 1:  # a weight alone: its input is zero, say
            self._tell(stuck, update)

    def _tell(self, stuck: list[Any], update: Update) -> None:
        zeros = not any(p._array.any() for p in stuck)
        place: Any = None
        if update.spot is not None and zeros:
            file = update.spot[0].co_filename
            line = find_constant_fill(file)
            place = self.origins.get(id(stuck[0])) if line is None else Place(file, line)
        place = place or self.off
        if self.flat is not None:
            name, place = self.flat
            self.report(f"{name}() has the derivative 0: {self.session.parameter_names(stuck)} "
                        "learn nothing", place, update.spot, steps=_STEPS,
                        fix=f"straight through: x + ({name}(x) - x).detach()")
            return
        self.report(f"the gradient of {self.session.parameter_names(stuck)} is zero in every step",
                    place, update.spot, steps=_STEPS,
                    **{"weights are all zero": zeros})
