"""Random steps with Python in them do, followed, what they do eagerly."""

from __future__ import annotations

import pytest

from .random_followed import RandomLoops, RandomStep, differences


def _check(step: RandomStep, **options) -> None:
    for difference in differences(step, **options):
        pytest.fail(f"seed {step.seed}\n{step.source}\n{difference}", pytrace=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [1, 2305, 2504, 2687])
def test_random_steps(seed):
    _check(RandomStep(seed), backend="evaluate")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(30_000, 30_010))
def test_random_loops(seed):
    _check(RandomLoops(seed), backend="evaluate")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(10_000, 14_000, 50))
def test_thousands_of_random_steps(start):
    for seed in range(start, start + 50):
        _check(RandomStep(seed), **({} if seed % 20 == 0 else {"backend": "evaluate"}))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(30_000, 32_000, 50))
def test_thousands_of_random_loops(start):
    for seed in range(start, start + 50):
        _check(RandomLoops(seed), **({} if seed % 20 == 0 else {"backend": "evaluate"}))
