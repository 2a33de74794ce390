"""`next()` of an outside `itertools.count`: which steps are proved, and that nobody can tell."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

from .watched_steps import watch

CALLS = 11


def outcome(make: Callable[[], tuple], is_compiled: bool) -> tuple[list, Any]:
    """(what a run shows, the step). `make` returns (step, counts)."""
    step, counts = make()
    step = torch.compile(step, mode="now") if is_compiled else step
    seen = []
    for call in range(CALLS):
        result = step(torch.full((3,), float(call)))
        seen.append((result.tolist(), *map(repr, counts)))
        if call == 7:
            next(counts[0])  # the caller counts too
    return seen, step


def check(make: Callable[[], tuple], is_proved: bool = True) -> None:
    expected, _ = outcome(make, False)
    actual, step = outcome(make, True)
    assert actual == expected
    assert ("is followed" not in step.explain()) == is_proved


@pytest.mark.parametrize("count", [
    itertools.count, lambda: itertools.count(-3), lambda: itertools.count(5, -2),
    lambda: itertools.count(2**63 - 4), lambda: itertools.count(10**30, 10**20),
    lambda: itertools.count(True), lambda: itertools.count(sys.maxsize),
    lambda: itertools.count(sys.maxsize - 1), lambda: itertools.count(sys.maxsize - 2),
], ids=["zero", "below", "down", "beyond a word", "huge", "a bool", "the last word",
        "the word before", "two words before"])
def test_a_count_is_advanced_without_python(count: Callable[[], Any]) -> None:
    def make() -> tuple:
        steps = count()

        def step(x: torch.Tensor) -> torch.Tensor:
            next(steps)
            return x * 2

        return step, [steps]

    check(make)


def test_what_it_decides_is_guarded() -> None:
    def make() -> tuple:
        steps, others = itertools.count(), itertools.count(1, 3)

        def step(x: torch.Tensor) -> torch.Tensor:
            if next(steps) % 3 == 2:
                x = x + 1
            if next(others) - next(others) % 2 > 20:
                x = x * 2
            return x * 2

        return step, [steps, others]

    check(make)


def test_a_rare_look_at_a_value_keeps_python_of_its_calls_only() -> None:
    ran: list[str] = []
    steps = itertools.count(1)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).sum()
        if next(steps) % 10 == 0:
            ran.append(f"{y.item():.1f}")
        return y

    fast = torch.compile(step, options={"mode": "now", "follow": True})
    assert [fast(torch.full((3,), float(k))).item() for k in range(45)] == [6.0 * k
                                                                           for k in range(45)]
    assert ran == [f"{6.0 * k:.1f}" for k in (9, 19, 29, 39)]
    assert next(steps) == 46
    proved = [s for s in fast._specializations.programs if s.calls > 20]
    assert proved, fast.explain()


def test_counts_of_an_object_and_of_an_argument() -> None:
    class State:
        def __init__(self) -> None:
            self.steps = itertools.count()

    def step(x: torch.Tensor, state: State, steps: Any) -> torch.Tensor:
        return x * (2 if (next(state.steps) + next(steps)) % 4 else 3)

    fast = torch.compile(step, mode="now")
    states = [State(), State()], [itertools.count(), itertools.count(7)]
    other = ([State(), State()], [itertools.count(), itertools.count(7)])
    for call in range(16):
        which = call // 6 % 2
        x = torch.full((3,), float(call))
        assert fast(x, states[0][which], states[1][which]).tolist() == \
            step(x, other[0][which], other[1][which]).tolist()
    assert [repr(s.steps) for s in states[0]] == [repr(s.steps) for s in other[0]]
    assert [*map(repr, states[1])] == [*map(repr, other[1])]


def test_two_threads_count_every_call() -> None:
    steps = itertools.count()

    def step(x: torch.Tensor) -> torch.Tensor:
        next(steps)
        return x * 2

    fast, x = torch.compile(step, mode="now"), torch.ones(3)
    fast(x), fast(x)
    threads = [threading.Thread(target=lambda: [fast(x) for _ in range(200)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert next(steps) == 402


class Counting(itertools.count):
    """Of a class of the step's own."""

    def __next__(self) -> int:
        return 7


class Number(int):
    """An int whose sum is of another kind."""


NUMBERS = [3, 4]
REFUSED: dict[str, Callable[[Any], Any]] = {
    "the number is stored": lambda c: NUMBERS.append(next(c)),
    "the number is an operand": lambda c: torch.ones(2) * next(c),
    "the number is returned": lambda c: next(c),
    "the number is printed": lambda c: f"{next(c)}",
    "the position is shown": lambda c: (next(c), repr(c)),
    "it is searched": lambda c: (next(c), 5 in c),
    "it is zipped": lambda c: (next(c), [*zip(NUMBERS, c, strict=False)]),
    "it is looped over": lambda c: (next(c), [n for n, _ in zip(c, NUMBERS, strict=False)]),
    "next is handed on": lambda c: (next(c), [*map(next, [c])]),
    "its method is called": lambda c: (next(c), c.__next__()),
    "an item is unpacked": lambda c: (next(c), min(1, *itertools.islice(c, 2))),
}
OTHERS = {
    "floats": lambda: itertools.count(0.5), "float steps": lambda: itertools.count(0, 0.5),
    "a subclass": Counting, "ints of a class": lambda: itertools.count(Number(2**70)),
    "steps of a class": lambda: itertools.count(3, Number(2)),
    "a generator": lambda: (k for k in itertools.count()),
    "a list's iterator": lambda: iter([1, 2, 3]), "a cycle": lambda: itertools.cycle([1]),
}


@pytest.mark.parametrize("step", REFUSED.values(), ids=REFUSED)
def test_what_depends_on_the_position_is_not_proved(step: Callable[[Any], Any]) -> None:
    steps = itertools.count()
    proof, mismatches = watch(lambda: step(steps))
    assert not proof.holds
    assert not mismatches


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_other_iterators_are_not_proved(make: Callable[[], Any]) -> None:
    steps = make()
    proof, _ = watch(lambda: next(steps) is None)
    assert not proof.holds
    assert "next()" in proof.why[0]


def test_a_partial_of_next_is_proved_as_next_is() -> None:
    count = functools.partial(next, itertools.count(3))
    proof, _ = watch(lambda: 1 if count() > 2 else 2)
    assert proof.holds, proof.why
    assert not proof.first_failing([])


def test_the_reason_names_the_count() -> None:
    class State:
        steps = itertools.count()

    state = State()
    proof, _ = watch(lambda: [next(state.steps)])
    assert "depends on the position of" in proof.why[0]
