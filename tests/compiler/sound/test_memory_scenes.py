"""Steps that hand memory around do compiled what they do eagerly."""

from __future__ import annotations

import pytest

from .memory_scenes import SCENES
from .scenario import CHANGES, MODES, compare


@pytest.mark.parametrize("name", SCENES)
def test_a_change_after_the_program(name: str) -> None:
    compare(SCENES[name], "now", CHANGES[2])


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True], ids=["as it is", "followed"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change_at", CHANGES)
@pytest.mark.parametrize("name", SCENES)
def test_changes_at_other_calls(name: str, change_at: int, mode: str, follow: bool) -> None:
    compare(SCENES[name], mode, change_at, follow)
