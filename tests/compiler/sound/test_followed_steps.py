"""Followed steps: Python runs on every call, and everything is as in an eager run."""

from __future__ import annotations

import pytest

from .followed_scenes import SCENES
from .scenario import CHANGES, MODES, compare


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change_at", CHANGES[1::2])
@pytest.mark.parametrize("name", SCENES)
def test_a_followed_step(name, change_at, mode):
    compare(SCENES[name], mode, change_at)
