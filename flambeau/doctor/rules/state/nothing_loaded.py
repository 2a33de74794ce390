"""A checkpoint of which nothing, or little, was taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MIN_SHARE = 0.1  # of the names, if they were meant to fit


def find_common_prefix(names: Iterable[str]) -> str:
    """Return the prefix of modules, as `module.`, that all names share; empty if none."""
    paths = [name.split(".")[:-1] for name in names]
    shared = []
    for column in zip(*paths, strict=False):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return "".join(f"{component}." for component in shared)


class NothingLoaded(Rule):
    """Compares names, where load_state_dict is not strict."""

    id = "nothing-loaded"
    level = Level.CERTAIN
    needs = ("on_load",)
    title = "load_state_dict(..., strict=False) loads nothing: no name matches"
    why = (
        "strict=False skips all names that differ, for example because of a prefix 'module.'. "
        "Reported when no name, or fewer than a tenth of them, match. Not reported if a part is "
        "loaded."
    )
    fix = "strip the prefix: {k.removeprefix('module.'): v for k, v in state.items()}"
    broken = """
net = nn.Linear(8, 1)
state = {"module." + name: value.clone() for name, value in net.state_dict().items()}
net.load_state_dict(state, strict=False)  # <-
"""
    fixed = edit(broken, {
        "net.load_state_dict(state, strict=False)  # <-":
            'net.load_state_dict({name.removeprefix("module."): value for name, value in '
            "state.items()})",
    })
    healthy = ("""
# The head is new; everything else is loaded.
old = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
state = {name: value for name, value in old.state_dict().items() if not name.startswith("2.")}
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
net.load_state_dict(state, strict=False)
""", """
# A state with more in it than this part needs.
net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 3))
state = net.state_dict()
state["extra"] = torch.zeros(1)
net.load_state_dict(state, strict=False)
""")

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        if strict or not hasattr(state, "keys"):
            return
        expected, supplied = set(module.state_dict()), set(state.keys())
        if not expected or not supplied:
            return
        fitting = len(expected & supplied)
        if fitting >= _MIN_SHARE * min(len(expected), len(supplied)):
            return
        prefix = find_common_prefix(supplied)
        evidence: dict[str, Any] = {"names that fit": f"{fitting} of {len(supplied)}"}
        if prefix:
            evidence["all begin with"] = repr(prefix)
        self.report("load_state_dict loads nothing from this state: its names differ", spot,
                    **evidence)
