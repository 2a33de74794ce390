"""Most steps that save and load states are proved (see test_scenes.py)."""

from __future__ import annotations

import pytest

import flambeau as torch

from .saved_state_scenes import SCENES

FOLLOWED = ("states in a list", "states that are appended and not read", "a returned state",
            "a state in an attribute", "a destination outside", "assigned tensors",
            "swapped tensors", "extra states", "own names", "loading called by code in c",
            "a forward called by code in c", "modes set by code in c")


@pytest.mark.parametrize("name", [name for name in SCENES if name not in FOLLOWED])
def test_python_is_skipped(name: str) -> None:
    scene = SCENES[name]()
    step = torch.compile(scene.step, mode="now", fullgraph=True)
    for _ in range(5):
        step(*scene.arguments())
