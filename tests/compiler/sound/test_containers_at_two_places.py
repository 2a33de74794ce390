"""A list, tuple, dict or array that is an argument may be found elsewhere, too, at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import flambeau as torch

from .scenario import collect

Calls = list[Callable[[], tuple]]
PROGRAMS: dict[str, Callable[[], tuple[Callable[..., Any], Calls]]] = {}
program = collect(PROGRAMS)


def _first_same(same: Any, other: Callable[[], Any]) -> Calls:
    return [lambda: (same,)] * 5 + [lambda: (other(),)] * 4


@program
def a_list() -> Any:
    outer = [torch.zeros(3)]
    return lambda x: x[0] * 2 + outer[0], _first_same(outer, lambda: [torch.ones(3)])


@program
def a_dict() -> Any:
    outer = {"a": torch.zeros(3)}
    return lambda x: x["a"] * 2 + outer["a"], _first_same(outer, lambda: {"a": torch.ones(3)})


@program
def a_tuple() -> Any:
    outer = (torch.zeros(3),)
    return lambda x: x[0] * 2 + outer[0], _first_same(outer, lambda: (torch.ones(3),))


@program
def a_list_in_a_list() -> Any:
    outer = [[torch.zeros(3)]]
    return lambda x: x[0][0] * 2 + outer[0][0], _first_same(outer, lambda: [[torch.ones(3)]])


@program
def a_list_that_is_summed() -> Any:
    outer = [torch.zeros(3)]

    def longer() -> Any:
        outer.append(torch.ones(3))
        return [torch.ones(3)]

    return (lambda x: sum(x) * 2 + sum(outer) + len(outer)), [
        *_first_same(outer, lambda: [torch.ones(3)]), lambda: (longer(),), lambda: (longer(),)]


@program
def a_list_of_numbers() -> Any:
    outer = [3.0]

    def change() -> Any:
        outer[0] = 4.0
        return [3.0]

    calls = [*_first_same(outer, lambda: [3.0]), lambda: (change(),), lambda: (change(),)]
    return lambda x: torch.ones(2) * x[0] + outer[0], calls


@program
def a_default() -> Any:
    known = [torch.zeros(3)]

    def step(x: Any, other: Any = known) -> Any:
        return x[0] * 2 + other[0]

    return step, _first_same(known, lambda: [torch.ones(3)])


@program
def a_variable_of_an_inner_function() -> Any:
    outer = [torch.zeros(3)]

    def step(x: Any) -> Any:
        def read() -> Any:
            return outer[0]

        return x[0] * 2 + read()

    return step, _first_same(outer, lambda: [torch.ones(3)])


@program
def an_array() -> Any:
    outer = [np.ones(3, np.float32)]
    return (lambda x: torch.from_numpy(x) * 2 + torch.from_numpy(outer[0]),
            _first_same(outer[0], lambda: np.full(3, 5, np.float32)))


@program
def an_attribute_of_another_argument() -> Any:
    holder = SimpleNamespace(x=[torch.zeros(3)])
    return lambda o, x: o.x[0] * 2 + x[0], [
        *[lambda: (holder, holder.x)] * 5, *[lambda: (holder, [torch.ones(3)])] * 4,
        *[lambda: (SimpleNamespace(x=[torch.ones(3)]), holder.x)] * 3]


@program
def a_list_that_the_step_keeps() -> Any:
    holder = SimpleNamespace(h=[torch.zeros(3)], other=None)

    def step(x: Any) -> Any:
        holder.h = [holder.h[0] + x]
        return holder.h[0] if holder.other is None else holder.h[0] - holder.other[0]

    def share() -> tuple:
        holder.other = holder.h
        return (torch.ones(3),)

    usual: Calls = [lambda: (torch.ones(3),)]
    return step, [share, *usual * 4, share, *usual * 4]


def _run(step: Callable[..., Any], calls: Calls) -> Iterator[Any]:
    for arguments in calls:
        yield step(*arguments()).tolist()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("follow", [False, None])
def test_the_next_call_finds_another_there(name: str, follow: bool | None) -> None:
    expected = list(_run(*PROGRAMS[name]()))
    step, calls = PROGRAMS[name]()
    compiled = torch.compile(step, options={"mode": "now", "follow": follow})
    assert list(_run(compiled, calls)) == expected
