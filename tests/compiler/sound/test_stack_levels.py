"""A step that warns or logs its caller's line, by `stacklevel`: the caller is the program, not the
compiler that runs the step."""

from __future__ import annotations

import linecache
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

_OPTIONS = {
    "default": {}, "now": {"mode": "now"}, "eager": {"mode": "now", "follow": False},
    "followed": {"mode": "now", "follow": True},
}


def warn_caller(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("careful", stacklevel=2)
    return x * 2


def warn_caller_by_position(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("careful", UserWarning, 2)
    return x * 2


def _warn_two_up(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("careful", stacklevel=3)
    return x * 2


def warn_from_within(x: torch.Tensor) -> torch.Tensor:
    return _warn_two_up(x) + 1


@pytest.mark.parametrize("way", _OPTIONS)
@pytest.mark.parametrize("step", [warn_caller, warn_caller_by_position, warn_from_within])
def test_a_warning_names_the_line_of_the_caller(step: Callable[..., Any], way: str) -> None:
    compiled = torch.compile(step, options=_OPTIONS[way])
    for _ in range(6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(torch.ones(3))  # this line
        lines = [linecache.getline(w.filename, w.lineno)
                 for w in caught if str(w.message) == "careful"]
        assert [line.partition("#")[2] for line in lines] == [" this line\n"]


@pytest.mark.parametrize("way", _OPTIONS)
def test_a_log_entry_names_the_file_of_the_caller(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger("step").warning("careful", stacklevel=2)
        return x * 2

    compiled = torch.compile(step, options=_OPTIONS[way])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            compiled(torch.ones(3))
    names = {record.funcName for record in caplog.records if record.name == "step"}
    assert names == {test_a_log_entry_names_the_file_of_the_caller.__name__}
