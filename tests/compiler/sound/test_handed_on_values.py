"""Numbers from outside that a step only hands on: programs must not freeze them."""

from __future__ import annotations

import functools
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import checkpoint

from .scenario import Scene, compare

Pair = namedtuple("Pair", ("left", "right"))


class Holder:
    """An object that a step creates."""

    def __init__(self, n: Any) -> None:
        self.n = n


def times(x: Any, **options: Any) -> Any:
    return x * options["n"]


def last(x: Any, *more: Any) -> Any:
    return x * more[-1]


def each(x: Any, n: Any) -> Any:
    for _ in range(2):
        yield x * n


def inner_default(x: Any, n: Any) -> Any:
    def scale(y: Any, factor: Any = n) -> Any:
        return y * factor

    return scale(x)


def inner_closure(x: Any, n: Any) -> Any:
    return [y * n for y in (x, x)], (lambda: n)()


def store(x: Any, box: Any) -> Any:
    box.stored = (box.n, 1)
    return x * 2


def store_list(x: Any, box: Any) -> Any:
    box.stored = [box.n, {"n": box.n}]
    return x * 2


def append(x: Any, box: Any) -> Any:
    box.listed.append(box.n)
    return x * 2


def raised(x: Any, box: Any) -> Any:
    try:
        raise ValueError(box.n)
    except ValueError as error:
        return x * error.args[0]


def counted(x: Any, box: Any) -> Any:
    box.n += 1
    return x * 2, box.n


def counted_in_a_tuple(x: Any, box: Any) -> Any:
    box.n += 1
    return x * 2, (box.n, "n")


def counted_by_name(x: Any, box: Any) -> Any:
    box.n = m = box.n + 1
    return x * 2, m


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "returned": lambda x, box: box.n,
    "returned in a tuple": lambda x, box: (x * 2, box.n),
    "returned in a list": lambda x, box: [x * 2, [box.n]],
    "returned in a dict": lambda x, box: {"x": x * 2, "n": box.n},
    "returned as a key": lambda x, box: {box.n: x * 2},
    "returned in a named tuple": lambda x, box: Pair(x * 2, box.n),
    "returned as text": lambda x, box: (x * 2, f"{box.n}"),
    "by a keyword": lambda x, box: times(x, n=box.n),
    "by a star": lambda x, box: last(x, 1, box.n),
    "by a tuple": lambda x, box: last(*(x, box.n)),
    "by a dict": lambda x, box: times(x, **box.__dict__ | {"stored": 1}),
    "by a generator": lambda x, box: list(each(x, box.n)),
    "by a default": lambda x, box: inner_default(x, box.n),
    "by a closure": lambda x, box: inner_closure(x, box.n),
    "by an object": lambda x, box: x * Holder(box.n).n,
    "by a partial": lambda x, box: functools.partial(times, n=box.n)(x),
    "by a method": lambda x, box: (x * 2, box.n.bit_length()),
    "by a property": lambda x, box: (x * 2, box.n.real),
    "by a callback": lambda x, box: checkpoint(lambda y: (y * 2, box.n), x, use_reentrant=False),
    "by max": lambda x, box: (x * 2, max(3, box.n)),
    "by a key": lambda x, box: (x * 2, sorted([1, 2], key=lambda i: -i * box.n)),
    "by an unpacked pair": lambda x, box: (lambda a, b: a * b)(*Pair(x, box.n)),
    "stored in a tuple": store,
    "stored in a list": store_list,
    "appended": append,
    "raised": raised,
    "counted": counted,
    "counted in a tuple": counted_in_a_tuple,
    "counted by another name": counted_by_name,
}


def build(name: str) -> Scene:
    box = types.SimpleNamespace(n=2, stored=None, listed=[])
    log: list[Any] = []

    def step(x: Any) -> Any:
        return STEPS[name](x, box)

    def change() -> None:
        box.n = 7

    def arguments() -> tuple:
        log.append((box.n, box.stored, list(box.listed)))
        return (torch.ones(4, 3),)

    return Scene(step, change, arguments, log=log)


@pytest.mark.parametrize("mode,at", [("now", 4), ("default", 8)])
@pytest.mark.parametrize("name", STEPS)
def test_a_number_that_is_handed_on_is_read_in_each_call(name: str, mode: str, at: int) -> None:
    compare(lambda: build(name), mode, at)
