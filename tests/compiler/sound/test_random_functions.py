"""Random functions of views, writes and aliases leave what eager calls leave, compiled."""

from __future__ import annotations

import pytest

from .random_functions import RandomFunction, differences


def _check(seed: int, **options) -> None:
    function = RandomFunction(seed)
    for difference in differences(function, **options):
        pytest.fail(f"seed {seed}\n{function.source}\n{difference}", pytrace=False)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_functions(start):
    for seed in range(start, start + 10):
        _check(seed, backend="evaluate")


def test_random_functions_in_machine_code():
    for seed in range(40, 46):
        _check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1_000, 5_000, 100))
def test_thousands_of_random_functions(start):
    for seed in range(start, start + 100):
        _check(seed, **({} if seed % 5 == 0 else {"backend": "evaluate"}))
