"""Random steps do, compiled, what they do eagerly."""

from __future__ import annotations

from typing import Any

import pytest

from . import random_carried, random_followed, random_functions

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS: dict[type, Any] = {  # by class, what yields the differences between its runs
    random_functions.RandomFunction: random_functions.differences,  # of views, writes and aliases
    random_carried.RandomCarry: random_carried.differences,  # that take over tensors
    random_followed.RandomStep: random_followed.differences,  # with Python in them
    random_followed.RandomLoops: random_followed.differences,
}
IN_MACHINE_CODE: dict[str, Any] = {}
INTERPRETED = {"backend": "evaluate"}


def _check(kind: type, seed: int, options: dict[str, Any]) -> None:
    step = kind(seed)
    for difference in STEPS[kind](step, **options):
        pytest.fail(f"seed {seed}\n{step.source}\n{difference}", pytrace=False)


@pytest.mark.parametrize(("kind", "seeds", "options"), [
    *[(random_functions.RandomFunction, range(start, start + 10), INTERPRETED)
      for start in range(0, 40, 10)],
    (random_functions.RandomFunction, range(40, 46), IN_MACHINE_CODE),
    *[(random_carried.RandomCarry, [seed], {"mode": "now"}) for seed in range(4)],
    *[(random_followed.RandomStep, [seed], INTERPRETED) for seed in (1, 2305, 2504, 2687)],
    *[(random_followed.RandomLoops, [seed], INTERPRETED) for seed in range(30_000, 30_010)],
])
def test_random_steps(kind: type, seeds: Any, options: dict[str, Any]) -> None:
    for seed in seeds:
        _check(kind, seed, options)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "start", "count", "every"), [
    *[(random_functions.RandomFunction, start, 100, 5) for start in range(1_000, 5_000, 100)],
    *[(random_followed.RandomStep, start, 50, 20) for start in range(10_000, 14_000, 50)],
    *[(random_followed.RandomLoops, start, 50, 20) for start in range(30_000, 32_000, 50)],
])
def test_thousands_of_random_steps(kind: type, start: int, count: int, every: int) -> None:
    """Every fifth or twentieth runs in machine code."""
    for seed in range(start, start + count):
        _check(kind, seed, INTERPRETED if seed % every else IN_MACHINE_CODE)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1_000, 4_000, 50))
def test_thousands_of_random_steps_that_take_over_tensors(start: int) -> None:
    for seed in range(start, start + 50):
        _check(random_carried.RandomCarry, seed, {"mode": "now"})
