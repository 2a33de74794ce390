"""Random steps that take over tensors do, compiled, what they do eagerly."""

from __future__ import annotations

import pytest

from .random_carried import RandomCarry, differences


def _check(seed: int, **options) -> None:
    step = RandomCarry(seed)
    for difference in differences(step, **options):
        pytest.fail(f"seed {seed}\n{step.source}\n{difference}", pytrace=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_random_steps_that_carry_tensors(seed):
    _check(seed, mode="now")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(1000, 4000, 50))
def test_thousands_of_random_steps_that_carry_tensors(start):
    for seed in range(start, start + 50):
        _check(seed, mode="now")
