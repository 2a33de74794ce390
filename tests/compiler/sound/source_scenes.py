"""Scenes as text: state and a step `f(x)`, a change to the state, and what to look at."""

from __future__ import annotations

import textwrap
from typing import Any

import flambeau as torch

from .scenario import Scene, compare

IMPORTS = """
import collections, dataclasses, enum, functools, sys, types, typing
import flambeau as T
log = []
"""


def compare_source(source: str, change: str, look: str = "None") -> None:
    """Asserts that a compiled run shows what the eager one does, the change being made once
    programs are in use and once before."""

    def make() -> Scene:
        space: dict[str, Any] = {"__name__": __name__}
        exec(IMPORTS + textwrap.dedent(source), space)

        def act() -> None:
            exec(change, space)

        seen: list[Any] = []

        def step(x: torch.Tensor) -> Any:
            return space["f"](x)

        def arguments() -> tuple:
            seen.append(repr(eval(look, space)))
            return (torch.ones(2),)

        return Scene(step, act, arguments, log=_Joined(seen, space["log"]))

    for change_at in (8, 2):
        compare(make, "now", change_at)


class _Joined(list):
    """The entries of several lists, read when they are iterated over."""

    def __init__(self, *lists: list[Any]) -> None:
        super().__init__()
        self._lists = lists

    def __iter__(self) -> Any:
        return (x for part in self._lists for x in part)
