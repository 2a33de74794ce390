"""Table of conversion functions by operator; the modules of operator families fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CONVERSIONS", "converts"]

CONVERSIONS: dict[str, Callable[..., Any]] = {}


def converts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers the conversion of these operators.

    It is called with the GraphBuilder, the node, and the node's arguments, and returns the name of
    the result, or a tuple of names.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CONVERSIONS[name] = function
        return function

    return register
