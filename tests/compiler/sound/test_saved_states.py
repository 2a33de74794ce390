"""Steps that save and load states do compiled what they do eagerly, and most are proved."""

from __future__ import annotations

import pytest

import flambeau as torch

from .saved_state_scenes import SCENES
from .scenario import CHANGES, MODES, compare

FOLLOWED = ("states in a list", "states that are appended and not read", "a returned state",
            "a state in an attribute", "a destination outside", "assigned tensors",
            "swapped tensors", "extra states", "own names", "loading called by code in c",
            "a forward called by code in c", "modes set by code in c")


@pytest.mark.parametrize("name", SCENES)
def test_a_change_after_the_program(name: str) -> None:
    compare(SCENES[name], "now", CHANGES[3])


@pytest.mark.parametrize("name", [name for name in SCENES if name not in FOLLOWED])
def test_python_is_skipped(name: str) -> None:
    scene = SCENES[name]()
    step = torch.compile(scene.step, mode="now", fullgraph=True)
    for _ in range(5):
        step(*scene.arguments())


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True], ids=["as it is", "followed"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change_at", CHANGES)
@pytest.mark.parametrize("name", SCENES)
def test_changes_at_other_calls(name: str, change_at: int, mode: str, follow: bool) -> None:
    compare(SCENES[name], mode, change_at, follow)
