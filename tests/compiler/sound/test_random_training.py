"""Random training programs do compiled what they do eagerly, whatever changes around them."""

from __future__ import annotations

import pytest

from .random_training import TrainingProgram, run_both
from .scenario import assert_same


def _check(seed: int, **options) -> None:
    program = TrainingProgram(seed)
    eager, compiled = run_both(program, **options)
    try:
        assert_same(compiled, eager, f"seed {seed}")
    except AssertionError as error:
        pytest.fail(f"{error}\n{program}", pytrace=False)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    _check(seed, backend="evaluate")


def test_an_update_that_raises():
    """Calls that are followed later raise in the optimizer's step, too, not after it."""
    _check(500029, backend="evaluate")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1_000, 4_000, 50))
def test_thousands_of_random_programs(start):
    for seed in range(start, start + 50):
        _check(seed, **({} if seed % 20 == 0 else {"backend": "evaluate"}))
