"""Numbers that a step decides about: a program guards the outcome, and nothing else may change."""

from __future__ import annotations

import enum
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

from .scenario import Scene, compare


ODD: list[Any] = []  # what was asked of odd ints


class Odd(int):
    """An int whose operators do something else."""

    def __mod__(self, other: Any) -> Any:
        ODD.append(other)
        return 0 if self == 5 else 7

    def __gt__(self, other: Any) -> bool:
        return False

    def __bool__(self) -> bool:
        return False


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 8


COUNTING = list(range(12))
# What the calls of a scene get; each makes other decisions than the counts before it.
SEQUENCES: dict[str, list[Any]] = {
    "counts": COUNTING,
    "from one": list(range(1, 13)),
    "backwards": list(range(6, -6, -1)),
    "huge": [3, 4, 5, 10**30, 10**30 + 1, -(10**40), 2**64, 2**63, -(2**63), 7, 10**400, 9],
    "floats": [1, 2, 3, 4.0, 5.0, 5.5, -0.0, 0.0, float("nan"), float("inf"), 4, 5],
    "all floats": [1.0, 2.0, 2.5, -0.0, 0.0, float("nan"), float("inf"), -float("inf"), 4.0, 5.0,
                   1e300, 4.0],
    "booleans": [1, 2, 3, True, False, 4, True, 1, 0, False, 5, 6],
    "subclasses": [1, 2, 3, 4, Odd(5), Odd(6), Odd(0), 5, 6, Odd(10), Level.LOW, Level.HIGH],
    "numpy": [1, 2, 3, 4, np.int64(5), np.int32(6), np.float32(7), np.bool_(True), 5, 6, 7,
              np.int8(0)],
    "none": [1, 2, 3, 4, None, 5, 6, None, 0, 1, 2, 3],
    "tensors": [1, 2, 3, 4, torch.tensor(5), 5, torch.tensor(10), 6, 7, 10, 15, 0],
    "texts": [1, 2, 3, 4, "five", 5, "%d", 6, 7, 10, 15, 0],
    "zero": [1, 2, 3, 4, 0, 5, 0, 6, 0, 7, 8, 9],
}


def every_fifth(x: Any, n: Any, log: list[Any]) -> Any:
    if n % 5 == 0:
        log.append(f"step {n}")
    return x * 2


def every_fifth_computes(x: Any, n: Any, log: list[Any]) -> Any:
    return x.sum() if n % 5 == 0 else x * 2


def looks(x: Any, n: Any, log: list[Any]) -> Any:
    y = (x * 2).sum()
    if n % 5 == 0:
        log.append(y.item())
    return y


def decides_and_uses(x: Any, n: Any, log: list[Any]) -> Any:
    return x * n if n > 5 else x * 2


def decides_and_returns(x: Any, n: Any, log: list[Any]) -> Any:
    return (x * 2, n) if n % 5 else (x * 2, -1)


def two_decisions(x: Any, n: Any, log: list[Any]) -> Any:
    if 2 < n < 9 and not n % 2:
        return x + 1
    return x - 1


def truth(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if n else x - 1


def negated(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if not -n else x - 1


def boolean(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if bool(n % 3) else x - 1


def boolean_as_a_value(x: Any, n: Any, log: list[Any]) -> Any:
    return x * (n % 3 == 0), n > 4


def divides(x: Any, n: Any, log: list[Any]) -> Any:
    if 100 // n > 30:
        return x + 1
    return x - 1


def divides_for_nothing(x: Any, n: Any, log: list[Any]) -> Any:
    12 % n
    return x - 1


def is_absent(x: Any, n: Any, log: list[Any]) -> Any:
    if n is None:
        return x * 7
    return x + 1 if n is not None and n % 4 == 0 else x - 1


def is_just_absent(x: Any, n: Any, log: list[Any]) -> Any:
    return x * 7 if n is None else x + 1


def by_function(x: Any, n: Any, log: list[Any]) -> Any:
    def is_due(every: int) -> bool:
        return n % every == every - 1

    return x + 1 if is_due(4) else x - 1


def by_lambda(x: Any, n: Any, log: list[Any]) -> Any:
    return sum((x * k for k in (1, 2) if n % 3 == k), x)


def by_filter(x: Any, n: Any, log: list[Any]) -> Any:
    return x * len([k for k in range(4) if k < n])


def by_sorting(x: Any, n: Any, log: list[Any]) -> Any:
    return x * sorted([1, 2, 3], key=lambda k: k if n % 2 else -k)[0]


def loops(x: Any, n: Any, log: list[Any]) -> Any:
    k = 0
    while n > k and k < 3:
        x, k = x + 1, k + 1
    return x


def assigns(x: Any, n: Any, log: list[Any]) -> Any:
    n += 3
    n *= 2
    m = n
    return x + 1 if m % 5 == 0 else x - 1


def bits(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if (n & 3) == 1 or n ^ 6 == 0 else x - 1


def in_a_tuple(x: Any, n: Any, log: list[Any]) -> Any:
    pair = (n, n % 3)
    return x * pair[1], pair


def in_a_list(x: Any, n: Any, log: list[Any]) -> Any:
    return x * len([n] * 2), [n]


def unused(x: Any, n: Any, log: list[Any]) -> Any:
    return x * 2


def by_length(x: Any, n: Any, log: list[Any]) -> Any:
    return x * len(f"{n}")


def by_keyword(x: Any, n: Any, log: list[Any]) -> Any:
    def scale(**options: Any) -> Any:
        return x + 1 if options["n"] % 3 == 0 else x - 1

    return scale(n=n)


def by_star(x: Any, n: Any, log: list[Any]) -> Any:
    return (lambda *a: x + 1 if a[0] % 3 == 0 else x - 1)(n)


def compares_two(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if n * n > 20 - n else x - 1


def compares_to_shape(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if n < x.shape[0] else x - 1


def members(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if n in (2, 5, 7) else x - 1


def powers(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if n**2 > 30 else x - 1


def isinstances(x: Any, n: Any, log: list[Any]) -> Any:
    return x + 1 if isinstance(n, bool) else x - 1


STEPS = [
    every_fifth, every_fifth_computes, looks, decides_and_uses, decides_and_returns, two_decisions,
    truth, negated, boolean, boolean_as_a_value, divides, divides_for_nothing, is_absent,
    is_just_absent,
    by_function, by_lambda, by_filter, by_sorting, loops, assigns, bits, in_a_tuple, in_a_list,
    unused, by_length, by_keyword, by_star, compares_two, compares_to_shape, members, powers,
    isinstances,
]



def build(step: Callable[..., Any], sequence: list[Any], place: str) -> Scene:
    """A scene in which a number lies somewhere and is another one in each call."""
    numbers, log = iter(sequence), []
    ODD.clear()
    box, entries, variable = types.SimpleNamespace(n=0), {"n": 0}, 0

    def by_argument(x: Any, n: Any) -> Any:
        return step(x, n, log)

    def by_attribute(x: Any) -> Any:
        return step(x, box.n, log)

    def by_entry(x: Any) -> Any:
        return step(x, entries["n"], log)

    def by_variable(x: Any) -> Any:
        return step(x, variable, log)

    def arguments() -> tuple:
        nonlocal variable
        log.append(len(ODD))
        variable = box.n = entries["n"] = n = next(numbers)
        return (torch.ones(4, 3), n) if place == "argument" else (torch.ones(4, 3),)

    steps = {"argument": by_argument, "attribute": by_attribute, "entry": by_entry,
             "variable": by_variable}
    return Scene(steps[place], arguments=arguments, log=log)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_number_that_decides_is_read_in_each_call(step: Any) -> None:
    for place, name in (("argument", "zero"), ("argument", "subclasses"), ("attribute", "counts"),
                        ("attribute", "subclasses"), ("attribute", "none")):
        compare(lambda name=name, place=place: build(step, SEQUENCES[name], place), "now", -1)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("place", ["argument", "attribute", "entry", "variable"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_numbers_of_every_kind_may_decide(step: Any, place: str, mode: str, follow: bool) -> None:
    for sequence in SEQUENCES.values():
        compare(lambda sequence=sequence: build(step, sequence, place), mode, -1, follow)


class Counter:
    """An object that counts."""

    def __init__(self) -> None:
        self.n, self.every, self.total = 0, 4, 0.0


COUNT = 0
COUNTS = {"n": 0}


def counts_first(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    return x + 1 if c.n % 4 == 0 else x - 1


def counts_last(x: Any, c: Counter, log: list[Any]) -> Any:
    y = x + 1 if c.n % 4 == 0 else x - 1
    c.n += 1
    return y


def counts_twice(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    y = x + 1 if c.n % 4 == 0 else x - 1
    c.n += 2
    return y * 2 if c.n > 10 else y


def counts_and_logs(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    y = (x * 2).sum()
    if c.n % c.every == 0:
        log.append((c.n, y.item()))
    return y


def counts_and_returns(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    return (x + 1, c.n) if c.n % 4 == 0 else x - 1


def counts_under_another_name(x: Any, c: Counter, log: list[Any]) -> Any:
    before = c.n
    c.n = before + 1
    return x + 1 if before % 3 == 0 else x - 1


def counts_when_due(x: Any, c: Counter, log: list[Any]) -> Any:
    if c.n < 6:
        c.n += 1
    return x + 1 if c.n == 6 else x - 1


def starts_again(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    if c.n >= 4:
        c.n = 0
        return x + 1
    return x - 1


def goes_around(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n = (c.n + 1) % 3
    return x + 1 if c.n == 0 else x - 1


def counts_globally(x: Any, c: Counter, log: list[Any]) -> Any:
    global COUNT
    COUNT += 1
    log.append(COUNT) if COUNT % 4 == 0 else None
    return x + 1


def counts_in_a_dict(x: Any, c: Counter, log: list[Any]) -> Any:
    COUNTS["n"] += 1
    return x + 1 if COUNTS["n"] % 4 == 0 else x - 1


def counts_what_another_counts(x: Any, c: Counter, log: list[Any]) -> Any:
    c.n += 1
    thread = threading.Thread(target=counts_last, args=(x, c, log))
    thread.start()
    thread.join()
    return x + 1 if c.n % 4 == 0 else x - 1


def hooks_count(x: Any, c: Counter, log: list[Any]) -> Any:
    w = x.detach().requires_grad_()

    def hook(g: Any) -> None:
        c.n += 1

    w.register_hook(hook)
    (w * 2).sum().backward()
    return x + 1 if c.n % 4 == 0 else x - 1


def totals(x: Any, c: Counter, log: list[Any]) -> Any:
    early = c.total < 40.0
    c.total += x.sum().item()
    return x + 1 if early else x - 1


def totals_then_decides(x: Any, c: Counter, log: list[Any]) -> Any:
    c.total += x.sum().item()
    return x + 1 if c.total < 40.0 else x - 1


COUNTERS = [
    counts_first, counts_last, counts_twice, counts_and_logs, counts_and_returns,
    counts_under_another_name, counts_when_due, starts_again, goes_around, counts_globally,
    counts_in_a_dict, counts_what_another_counts, hooks_count, totals, totals_then_decides,
]
# What else happens to the counter, before the sixth call.
CHANGES: dict[str, Callable[[Counter], Any]] = {
    "nothing": lambda c: None,
    "set back": lambda c: setattr(c, "n", 0),
    "a float": lambda c: setattr(c, "n", 2.5),
    "a boolean": lambda c: setattr(c, "n", True),
    "a subclass": lambda c: setattr(c, "n", Odd(5)),
    "a tensor": lambda c: setattr(c, "n", torch.tensor(7)),
    "another period": lambda c: setattr(c, "every", 3),
    "no period": lambda c: setattr(c, "every", 0),
    "gone": lambda c: delattr(c, "n"),
}


def build_counter(step: Callable[..., Any], change: str) -> Scene:
    """A scene of a step that counts, and of what else happens to its counter."""
    global COUNT
    COUNT = COUNTS["n"] = 0
    ODD.clear()
    counter, log = Counter(), []

    def arguments() -> tuple:
        log.append((len(ODD), COUNT, COUNTS["n"], repr(getattr(counter, "n", None)), counter.total))
        return (torch.ones(4, 3),)

    return Scene(lambda x: step(x, counter, log), lambda: CHANGES[change](counter) and None,
                 arguments, log=log)


@pytest.mark.parametrize("step", COUNTERS, ids=lambda step: step.__name__)
def test_a_counter_decides_in_each_call(step: Any) -> None:
    for change in ("nothing", "a subclass"):
        compare(lambda change=change: build_counter(step, change), "now", 6)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("step", COUNTERS, ids=lambda step: step.__name__)
def test_a_counter_may_change_between_calls(step: Any, mode: str, follow: bool) -> None:
    for change in CHANGES:
        for at in (3, 6, 9):
            compare(lambda change=change: build_counter(step, change), mode, at, follow)


@pytest.mark.parametrize("step", [every_fifth, looks, truth, by_function, unused])
def test_one_program_serves_all_calls_that_decide_the_same(step: Any) -> None:
    log: list[Any] = []
    fast = torch.compile(lambda x, n: step(x, n, log), mode="now")
    for n in range(1, 31):
        fast(torch.ones(4, 3), n)
    assert max(program.calls for program in fast._programs) >= 20
    assert len(log) == {every_fifth: 6, looks: 6}.get(step, 0)


@pytest.mark.parametrize("step", [counts_first, counts_last, counts_and_logs, counts_in_a_dict])
def test_one_program_serves_a_counter(step: Any) -> None:
    COUNTS["n"] = 0
    counter, log = Counter(), []
    fast = torch.compile(lambda x: step(x, counter, log), mode="now")
    for _ in range(40):
        fast(torch.ones(4, 3))
    assert max(program.calls for program in fast._programs) >= 25
    assert len(log) == (10 if step is counts_and_logs else 0)
    assert counter.n + COUNTS["n"] == 40
