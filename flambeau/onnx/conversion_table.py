"""Which function converts which operator; the files of families add theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CONVERSIONS", "converts"]

CONVERSIONS: dict[str, Callable[..., Any]] = {}


def converts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function converts these operators.

    It is called with the GraphBuilder, the node, and the node's arguments; it gives the name of
    the result, or names in a tuple.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERSIONS[name] = function
        return function

    return register
