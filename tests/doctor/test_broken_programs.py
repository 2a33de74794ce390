"""Programs with a mistake, written before the checks: each is named, with the right line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from .watched_programs import marked, mistakes, programs, watch

BROKEN = dict(programs("broken"))


@pytest.mark.parametrize("name", BROKEN)
def test_is_named(name: str) -> None:
    program: Callable[[], None] = BROKEN[name]
    lines = marked(program)
    findings = mistakes(watch(program), program)
    assert lines
    assert any(f.place is not None and f.place.line in lines for f in findings), [
        f.text() for f in findings
    ]


def test_two_thirds_within_three_steps() -> None:
    """How soon: the number of the backward pass at which the first mistake was told."""
    first = [min((f.steps[0] for f in watch(p).mistakes), default=99) for p in BROKEN.values()]
    assert sum(step <= 3 for step in first) >= len(first) * 2 / 3
