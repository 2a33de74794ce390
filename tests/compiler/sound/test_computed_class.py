"""The compiler asks no object of the step's own for its class: `isinstance` would call code of a
class that defines `__getattribute__` or a `__class__` property."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest


import flambeau as torch

from .scenario import Scene, compare

LOG: list[str] = []


class Logging:
    """Its attributes are read where others can see it."""

    def __init__(self) -> None:
        self.scale = 2.0

    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5

    def __len__(self) -> int:
        return 2


class Disguised:
    """It claims to be an int."""

    def __init__(self) -> None:
        self.scale = 2.0

    @property
    def __class__(self) -> Any:
        LOG.append("class")
        return int


def _steps(p: Any) -> dict[str, Callable[[Any], Any]]:
    inside, table, options = [p, 1], {"a": p, p: 3.0}, (p,)

    def default(x: Any, q: Any = p) -> Any:
        return x * q.scale

    return {
        "an attribute": lambda x: x * p.scale,
        "in a list": lambda x: x * inside[0].scale,
        "in a dict": lambda x: x * table["a"].scale,
        "in a tuple": lambda x: x * options[0].scale,
        "a key": lambda x: x * table[p],
        "identity": lambda x: x if p is None else x * 2,
        "its type": lambda x: x * 2 if type(p) is int else x,
        "its length": lambda x: x * 2 if hasattr(type(p), "__len__") else x,
        "a default": default,
        "partial": functools.partial(lambda q, x: x * q.scale, p),
        "returned": lambda x: (x * 2, [p])[0],
        "unused": lambda x: (p, x * 2)[1],
    }


def _make(kind: type, name: str) -> Scene:
    LOG.clear()
    p = kind()
    return Scene(_steps(p)[name], lambda: setattr(p, "scale", 5.0), log=LOG)


@pytest.mark.parametrize("kind", [Logging, Disguised])
@pytest.mark.parametrize("name", _steps(None))
def test_an_object_is_not_asked_for_its_class(name: str, kind: type) -> None:
    compare(lambda: _make(kind, name), "now", 8)


@pytest.mark.parametrize("mode", [None, "now"])
@pytest.mark.parametrize("kind", [Logging, Disguised])
def test_an_argument_is_not_asked_for_its_class(kind: type, mode: str | None) -> None:
    def step(x: Any, p: Any, parts: Any) -> Any:
        return x * parts[0].scale + p.scale

    fast, p, x = torch.compile(step, options={"mode": mode}), kind(), torch.ones(3)
    LOG.clear()
    step(x, p, [p])
    expected = list(LOG)
    for _ in range(6):
        LOG.clear()
        assert fast(x, p, [p]).tolist() == [4.0] * 3
        assert expected == LOG
