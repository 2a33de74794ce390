"""Iterators that a step makes with itertools are read like lists; those of others advance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from .scenario import collect

Made = tuple[Callable[[Any], Any], Callable[[], Any]]
PROVED: dict[str, Callable[[], Made]] = {}
FOLLOWED: dict[str, Callable[[], Made]] = {}
_proved, _followed = collect(PROVED), collect(FOLLOWED)


@_proved
def chain() -> Made:
    first, second = [1.0, 2.0], [3.0]
    return lambda x: sum(x * v for v in itertools.chain(first, second)), lambda: second.append(4.0)


@_proved
def chain_of_parameters() -> Made:
    torch.manual_seed(0)
    first, second = nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)])

    def step(x: Any) -> Any:
        return x * sum(p.sum() for p in itertools.chain(first.parameters(), second.parameters()))

    return step, lambda: second.append(nn.Linear(2, 2))


@_proved
def chain_of_a_generator() -> Made:
    count = [3]

    def numbers() -> Iterator[float]:
        for k in range(count[0]):
            yield k * 1.0

    def change() -> None:
        count[0] = 5

    return lambda x: sum(x * v for v in itertools.chain(numbers(), [1.0])), change


@_proved
def islice() -> Made:
    numbers = [1.0, 2.0, 3.0]
    return lambda x: sum(x * v for v in itertools.islice(numbers, 2)), lambda: numbers.pop(0)


@_proved
def product() -> Made:
    first, second = [1.0, 2.0], [3.0, 5.0]
    return (lambda x: sum(x * a * b for a, b in itertools.product(first, second)),
            lambda: first.append(4.0))


@_proved
def combinations() -> Made:
    tensors = [torch.ones(2), torch.ones(2) * 2]
    return (lambda x: sum(x * a.dot(b) for a, b in itertools.combinations(tensors, 2)),
            lambda: tensors.append(torch.ones(2) * 3))


@_proved
def repeat() -> Made:
    times = [3]
    return (lambda x: sum(x * v for v in itertools.repeat(2.0, times[0])),
            lambda: times.append(times.pop() + 2))


@_followed
def islice_of_an_iterator() -> Made:
    numbers = iter([1.0, 2.0, 3.0] * 20)
    return lambda x: sum(x * v for v in itertools.islice(numbers, 2)), lambda: next(numbers)


@_followed
def chain_of_an_iterator() -> Made:
    numbers = iter([1.0, 2.0, 3.0] * 20)
    return lambda x: x * next(itertools.chain(numbers, [1.0])), lambda: next(numbers)


@_followed
def a_chain_from_outside() -> Made:
    numbers = itertools.chain([1.0, 2.0], [3.0] * 40)
    return lambda x: x * next(numbers), lambda: next(numbers)


def _run(step: Callable[[Any], Any], change: Callable[[], Any]) -> Iterator[list[float]]:
    for call in range(9):
        if call == 5:
            change()
        yield step(torch.full((2,), 1.0 + call)).tolist()


@pytest.mark.parametrize("name", [*PROVED, *FOLLOWED])
def test_iterators(name: str) -> None:
    make = PROVED.get(name) or FOLLOWED[name]
    expected = list(_run(*make()))
    step, change = make()
    compiled = torch.compile(step, options={"mode": "now", "follow": True})
    for result, wanted in zip(_run(compiled, change), expected, strict=True):
        assert result == pytest.approx(wanted)
    assert ("is followed" in compiled.explain()) == (name in FOLLOWED)
