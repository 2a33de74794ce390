"""Prints within blocks of a grad mode: a program makes them, unless code may see their errors."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch


def print_within(x: Any) -> None:
    with torch.no_grad():
        print("sum", x.sum().item())


def print_within_two(x: Any) -> None:
    with torch.no_grad(), torch.enable_grad():
        print(f"{x.sum().item():.1f}")


def print_within_try(x: Any) -> None:
    with contextlib.suppress(ValueError):
        print("sum", x.sum().item())


def print_in_mode_in_try(x: Any) -> None:
    try:
        with torch.no_grad():
            print("sum", x.sum().item())
    except ValueError:
        print_within(x)


def print_in_try_in_mode(x: Any) -> None:
    with torch.no_grad():
        try:
            print("sum", x.sum().item())
        except ValueError:
            return


def _call(act: Callable[[Any], None], is_compiled: bool) -> tuple[list[Any], Any]:
    """What is seen of six calls, of which the last two print to closed streams."""
    w = torch.ones(2, requires_grad=True)

    def step(x: Any) -> Any:
        y = w * x
        act(y.detach())
        return y

    call: Any = torch.compile(step, options={"mode": "now"}) if is_compiled else step
    seen: list[Any] = []
    for k in range(6):
        stream = io.StringIO()
        if k > 3:
            stream.close()
        with contextlib.redirect_stdout(stream):
            try:
                result = call(torch.full((2,), float(k))).tolist()
            except ValueError as error:
                result = str(error)
        seen.append((result, torch.is_grad_enabled(), stream.closed or stream.getvalue()))
    return seen, call


@pytest.mark.parametrize("act", [print_within, print_within_two])
def test_programs_print_within_grad_modes(act: Callable[[Any], None]) -> None:
    seen, compiled = _call(act, True)
    assert seen == _call(act, False)[0]
    assert "1 program" in compiled.explain() or "kernel" in compiled.explain()
    assert "is followed" not in compiled.explain()


@pytest.mark.parametrize("act", [print_within_try, print_in_mode_in_try, print_in_try_in_mode])
def test_python_prints_where_it_may_catch_the_error(act: Callable[[Any], None]) -> None:
    seen, compiled = _call(act, True)
    assert seen == _call(act, False)[0]
    assert "print" in compiled.explain()
