"""requires_grad that is misspelt, or set on a module."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from ...events import ModuleCall
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...source import parse_file
from ..rule import Rule

_MISSPELT = frozenset((
    "require_grad", "requires_grads", "require_grads", "requires_gradient", "require_gradient",
    "required_grad", "requiresgrad", "requiresGrad", "require_grad_", "grad_required", "trainable",
))


def _reads_flag(cls: type) -> bool:
    """Whether methods of a class mention requires_grad, so that it is a setting of its own."""
    return any(
        "requires_grad" in function.__code__.co_names
        for base in cls.__mro__ if not base.__module__.startswith("flambeau.")
        for function in vars(base).values() if inspect.isfunction(function)
    )


def find_assignment(file: str, name: str) -> int | None:
    """The line of a file that sets an attribute of this name."""
    tree = parse_file(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Attribute) and t.attr == name for t in node.targets
        ):
            return node.lineno
    return None


class MisspeltFlag(Rule):
    """Looks for attributes of parameters and modules that nothing reads."""

    id = "requires-grad-misspelt"
    level = Level.CERTAIN
    needs = ("on_call",)
    title = "an attribute is set that freezes nothing: misspelled, or set on a module"
    why = (
        "Python lets a program set any attribute. Parameters have the attribute requires_grad; "
        "modules have the method requires_grad_()."
    )
    fix = "parameter.requires_grad = False, or module.requires_grad_(False)"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
for parameter in net[0].parameters():
    parameter.require_grad = False  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "parameter.require_grad = False  # <-": "parameter.requires_grad = False",
    })
    healthy = ("""
# Attributes of one's own.
net = nn.Linear(8, 3)
for parameter in net.parameters():
    parameter.group = "head"
net.description = "a single layer"
net(x)
""", """
# A module that has the flag as a setting of its own, and applies it.
class Net(nn.Module):
    def __init__(self, requires_grad=False):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        for parameter in self.layer.parameters():
            parameter.requires_grad = requires_grad

    def forward(self, x):
        return self.layer(x)

Net()(x)
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.looked: set[int] = set()

    def on_call(self, call: ModuleCall) -> None:
        if id(call.module) in self.looked or call.spot is None:
            return
        self.looked.add(id(call.module))
        for module in call.module.modules():
            if vars(module).get("requires_grad") is False and not _reads_flag(type(module)):
                self._tell("requires_grad", "a module", call.spot)
            for parameter in module._parameters.values():
                for name in getattr(parameter, "__dict__", {}) if parameter is not None else ():
                    if name in _MISSPELT:
                        self._tell(name, "a parameter", call.spot)

    def _tell(self, name: str, owner: str, spot: Spot) -> None:
        file = spot[0].co_filename
        line = find_assignment(file, name)
        place = None if line is None else Place(file, line)
        self.report(f"{owner} has no attribute '{name}': setting it has no effect", place, spot)
