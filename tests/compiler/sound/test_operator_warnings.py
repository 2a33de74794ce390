"""Warnings that operators raise while they compute: a followed step raises each once, at its line,
under the filters that are set there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .scenario import Scene, compare


def real_part(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x).to(torch.float32)


def byte_condition(x: torch.Tensor) -> torch.Tensor:
    return torch.where((x > 0).to(torch.uint8), x, -x)


@pytest.mark.parametrize("function", [real_part, byte_condition])
def test_a_warning_is_caught_where_it_is_raised(function: Callable[[Any], Any]) -> None:
    def make() -> Scene:
        log: list[Any] = []

        def step(x: torch.Tensor) -> Any:
            y = x * 2
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                z = function(y)
            log.append([(str(w.message)[:20], w.lineno) for w in caught])
            return z + 1

        return Scene(step, log=log)

    compare(make, "now", 5)
    compare(make, "default", 3)


@pytest.mark.parametrize("function", [real_part, byte_condition])
def test_a_call_warns_once(function: Callable[[Any], Any]) -> None:
    numbers: list[float] = []

    def step(x: torch.Tensor) -> torch.Tensor:
        numbers.append(float(x.sum()))
        return function(x * 2) + 1

    step = torch.compile(step, options={"mode": "now", "follow": True})
    for _ in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(torch.ones(3))
        assert len(caught) == 1


def test_a_composite_that_warns_is_followed() -> None:
    calls = iter(int, 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        next(calls)
        return torch.nn.functional.mse_loss(x * 2, x[:1])

    step = torch.compile(step, options={"mode": "now", "follow": True})
    for _ in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(torch.ones(3, 2))
        assert ["target size" in str(w.message) for w in caught] == [True]
    assert "program, run 4 times" in step.explain()


def test_a_warning_raised_as_an_error_is_caught_by_the_step() -> None:
    def make() -> Scene:
        filters = ["error"]

        def step(x: torch.Tensor) -> Any:
            y = (x * 2).exp()
            with warnings.catch_warnings():
                warnings.simplefilter(filters[0])  # type: ignore[arg-type]
                try:
                    y = real_part(y)
                except UserWarning:
                    y = y * 5
            return y + 1

        def change() -> None:
            filters[0] = "ignore"

        return Scene(step, change)

    compare(make, "now", 6)


def test_a_recorded_call_warns_at_the_line_of_the_step() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("careful", stacklevel=1)
        return x * 2

    step = torch.compile(step, mode="now")
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(torch.ones(3))
        assert [w.filename for w in caught] == [__file__]
