"""Random steps with Python in them do, followed, what they do eagerly."""

from __future__ import annotations

import pytest

from .random_followed import RandomStep, differences


def _check(seed: int, **options) -> None:
    step = RandomStep(seed)
    for difference in differences(step, **options):
        pytest.fail(f"seed {seed}\n{step.source}\n{difference}", pytrace=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [1, 2305, 2504, 2687])
def test_random_steps(seed):
    _check(seed, backend="evaluate")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(10_000, 14_000, 50))
def test_thousands_of_random_steps(start):
    for seed in range(start, start + 50):
        _check(seed, **({} if seed % 20 == 0 else {"backend": "evaluate"}))
