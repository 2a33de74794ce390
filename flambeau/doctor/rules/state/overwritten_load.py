"""Weights that are loaded and then initialized anew."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ...events import ModuleCall
from ...finding import Level, Place
from ...places import Spot, place_of
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_NUMBERS = 4096  # of a weight that are compared
_RESEMBLE = 0.3  # correlation, from which on weights are the loaded ones, changed
_MIN_NUMBERS = 16  # of a parameter: fewer may agree by chance


class OverwrittenLoad(Rule):
    """Compares a model's weights at its first call with the state that was loaded."""

    id = "loaded-weights-overwritten"
    level = Level.LIKELY
    needs = ("on_load", "on_call")
    title = (
        "the loaded weights are overwritten before the model is called: training starts from "
        "scratch"
    )
    why = (
        "An initialization after load_state_dict, through apply() or in a constructor, replaces "
        "the loaded weights. Reported at the first call if none of at least two matrices "
        "resembles the loaded one and no update came before. Not reported if a part is "
        "reinitialized, such as a head, or for weights that were scaled, averaged or perturbed."
    )
    fix = "initialize first, then load"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
state = copy.deepcopy(net.state_dict())
net.load_state_dict(state)
for layer in (net[0], net[2]):
    nn.init.xavier_uniform_(layer.weight)  # <-
loss = F.cross_entropy(net(x), y)
"""
    fixed = edit(broken, {
        "net.load_state_dict(state)": "",
        "nn.init.xavier_uniform_(layer.weight)  # <-": "nn.init.xavier_uniform_(layer.weight)",
        "loss = F.cross_entropy(net(x), y)":
            "net.load_state_dict(state)\nloss = F.cross_entropy(net(x), y)",
    })
    healthy = (edit(broken, {
        # The head alone begins anew.
        "for layer in (net[0], net[2]):": "for layer in net[2:]:",
        "nn.init.xavier_uniform_(layer.weight)  # <-": "nn.init.xavier_uniform_(layer.weight)",
    }), edit(broken, {
        # The average of two models.
        "for layer in (net[0], net[2]):": "for p in net.parameters():",
        "nn.init.xavier_uniform_(layer.weight)  # <-":
            "p.data = 0.5 * p.data + 0.05 * torch.randn_like(p)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # By model: what was loaded, the line, and updates by then.
        self.loaded: dict[int, tuple[Any, dict[str, np.ndarray], Spot | None, int]] = {}

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        if not hasattr(state, "items"):
            return
        names = {name for name, p in module.named_parameters() if p._array.ndim > 1}
        arrays = {name: _copy_numbers(value._array) for name, value in state.items()
                  if name in names and hasattr(value, "_array")}
        self.session.follow(module)
        self.loaded[id(module)] = module, arrays, spot, self.session.updates

    def on_call(self, call: ModuleCall) -> None:
        for module in call.module.modules() if self.loaded else ():
            entry = self.loaded.pop(id(module), None)
            if entry is None or entry[3] != self.session.updates:
                continue
            current = dict(module.named_parameters())
            pairs = [(array, _copy_numbers(current[name]._array))
                     for name, array in entry[1].items()
                     if name in current and current[name]._array.size >= _MIN_NUMBERS
                     and array.std()]
            if len(pairs) > 1 and not any(_resemble(a, b) for a, b in pairs):
                self.report("none of the loaded weights is left",
                            _find_later_initialization(entry[2]),
                            entry[2], call.spot, matrices=len(pairs))


def _copy_numbers(array: np.ndarray) -> np.ndarray:
    copied: np.ndarray = array.reshape(-1)[:_NUMBERS].copy()
    return copied


def _resemble(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or not b.std():
        return False
    return abs(float(np.corrcoef(a, b)[0, 1])) > max(_RESEMBLE, 4 / len(a) ** 0.5)


def _find_later_initialization(spot: Spot | None) -> Place | None:
    """Return the first line after a load that calls apply(), nn.init or reset_parameters."""
    place = place_of(spot)
    tree = None if place is None else parse_file(place.file)
    if place is None or tree is None:
        return None
    lines = [node.lineno for node in ast.walk(tree)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
             and node.lineno > place.line
             and (node.func.attr in ("apply", "reset_parameters") or "init" in node.func.attr
                  or "init." in ast.unparse(node.func))]
    return Place(place.file, min(lines), place.function) if lines else None
