"""Library functions that compute outside the operators, in a followed step: what they read is
computed first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.train.metrics import MSE, Mean
from flambeau.utils.data import default_collate

from .scenario import Scene, compare


def collate(x: torch.Tensor) -> Any:
    return default_collate([{"a": x}, {"a": x * 2}])["a"]


def error(x: torch.Tensor) -> float:
    metric = MSE()
    metric.update(x * 5, x * 0)
    return metric.compute()


def mean(x: torch.Tensor) -> float:
    metric = Mean(lambda output, target: (output * 3).mean())
    metric.update(x, x)
    return metric.compute()


@pytest.mark.parametrize("function", [collate, error, mean])
@pytest.mark.parametrize("looks", [False, True], ids=["alone", "followed"])
def test_values_are_those_of_the_call(function: Callable[[Any], Any], looks: bool) -> None:
    def make() -> Scene:
        log: list[float] = []

        def step(x: torch.Tensor) -> Any:
            if looks:
                log.append(float(x.sum()))
            return function(x * 2)

        return Scene(step, log=log)

    compare(make, "now", 5)
