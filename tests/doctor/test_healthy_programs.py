"""Healthy programs of as many kinds as there are: not one certain or likely finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from .watched_programs import mistakes, programs, watch

HEALTHY = dict(programs("healthy"))


@pytest.mark.parametrize("name", HEALTHY)
def test_is_silent(name: str) -> None:
    program: Callable[[], None] = HEALTHY[name]
    findings = mistakes(watch(program), program)
    assert not findings, [f.text() for f in findings]


def test_there_are_enough() -> None:
    assert len(HEALTHY) >= 60
