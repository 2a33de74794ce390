"""Scenes, each a step and a change between two of its calls, go compiled as they go eagerly."""

from __future__ import annotations

from typing import Any

import pytest

from . import (
    carried_alias_scenes, carried_grad_scenes, carried_history_scenes, carried_order_scenes,
    carried_scenes, interpreter_scenes, memory_scenes, number_input_scenes, saved_state_scenes,
    surgery_scenes,
)
from .scenario import CHANGES, MODES, compare

assert all((carried_alias_scenes, carried_grad_scenes, carried_history_scenes,
            carried_order_scenes))  # they register their scenes


FAMILIES: dict[Any, dict[str, Any]] = {  # with the call before which the change comes, at least
    carried_scenes: {"change_at": CHANGES[3], "follow": False},
    interpreter_scenes: {"change_at": CHANGES[2]},
    memory_scenes: {"change_at": CHANGES[2]},
    number_input_scenes: {"change_at": CHANGES[3], "follow": False},
    saved_state_scenes: {"change_at": CHANGES[3]},
    surgery_scenes: {"change_at": CHANGES[2]},
}
SCENES = {f"{family.__name__.rpartition('.')[2]}: {name}": (build, options)
          for family, options in FAMILIES.items() for name, build in family.SCENES.items()}


@pytest.mark.parametrize("name", SCENES)
def test_a_change_after_the_program(name: str) -> None:
    build, options = SCENES[name]
    compare(build, "now", **options)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True], ids=["as it is", "followed"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change_at", CHANGES)
@pytest.mark.parametrize("name", SCENES)
def test_changes_at_other_calls(name: str, change_at: int, mode: str, follow: bool) -> None:
    compare(SCENES[name][0], mode, change_at, follow)
