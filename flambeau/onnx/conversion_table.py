"""Table of conversion functions by operator; the modules of operator families fill it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

__all__ = ["CONVERSIONS", "converts", "converts_ranks"]

CONVERSIONS: dict[str, Callable[..., Any]] = {}


def converts(*names: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers the conversion of these operators.

    It is called with the GraphBuilder, the node, and the node's arguments, and returns the name of
    the result, or a tuple of names. `settings`: arguments by name that tell operators apart which
    share a function.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERSIONS[name] = partial(function, **settings) if settings else function
        return function

    return register


def converts_ranks(
    pattern: str, ranks: Sequence[int] = (1, 2, 3)
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers the conversion of operators with `spatial_rank` axes, whose
    names have this number in place of {n}."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for n in ranks:
            CONVERSIONS[pattern.format(n=n)] = partial(function, spatial_rank=n)
        return function

    return register
