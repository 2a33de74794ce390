"""Followed steps: Python runs on every call, and everything is as in an eager run."""

from __future__ import annotations

import pytest

import flambeau as torch

from .followed_scenes import SCENES
from .script_scenes import SCENES as IDIOMS
from .scenario import CHANGES, MODES, compare


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change_at", CHANGES[1::2])
@pytest.mark.parametrize("name", SCENES)
def test_a_followed_step(name, change_at, mode):
    compare(SCENES[name], mode, change_at, follow=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_of_training_loops(name, mode):
    compare(IDIOMS[name], mode, CHANGES[2])


def counting() -> tuple:
    """A step that counts in Python, and the counts."""
    counts: list[int] = []

    def step(x):
        counts.append(len(counts))
        return (x * 2).relu().sum()

    return step, counts


def test_following_needs_no_option() -> None:
    step, counts = counting()
    followed = torch.compile(step, mode="now")
    results = [followed(torch.ones(4)).item() for _ in range(8)]
    assert results == [8.0] * 8
    assert counts == list(range(8))
    assert "is followed" in followed.explain()


@pytest.mark.filterwarnings("ignore:flambeau.compile")
def test_where_it_is_forbidden_such_a_step_stays_eager() -> None:
    step, counts = counting()
    plain = torch.compile(step, options={"mode": "now", "follow": False})
    assert [plain(torch.ones(4)).item() for _ in range(8)] == [8.0] * 8
    assert counts == list(range(8))
    assert "stays eager" in plain.explain()
