"""Stubs on functions that would not notice an argument whose window is no dense array: a sparse or
a quantized tensor. They are worn from the first such tensor on.

`ops/sparse` and `ops/quantized` fill this in; a compiler's capture takes the stubs off and asks
`handler_for` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from .code_patching import Swap, swap_of


class Kind(NamedTuple):
    """A kind of tensors: what a refusal calls them, and whether a call has one as an argument."""

    name: str
    looks: Callable[[tuple, dict[str, Any]], bool]


class WindowStubs:
    """Which functions have an implementation for a kind, and the swaps of those with a stub."""

    def __init__(self) -> None:
        self.swaps: list[Swap] = []
        self.suspended: list[list[Swap]] = []  # what each suspension took off
        self.handlers: dict[int, list[tuple[Kind, Callable]]] = {}

    def register(self, function: FunctionType, kind: Kind, handler: Callable) -> None:
        """Has a capture hand a function's calls with such arguments to `handler`."""
        self.handlers.setdefault(id(function), []).append((kind, handler))

    def wear(self, function: FunctionType, kind: Kind, handler: Callable) -> None:
        """Hands a function's calls with such arguments to `handler` from now on."""
        looks = kind.looks

        def look(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
            return (handler if looks(args, kwargs) else original)(*args, **kwargs)

        swap = swap_of(function, look)
        self.swaps.append(swap)
        swap.start()

    def suspend(self) -> None:
        """Take the stubs off that are on, until the matching `restore`."""
        worn = [swap for swap in self.swaps if swap.is_on]
        self.suspended.append(worn)
        for swap in reversed(worn):
            swap.restore()

    def restore(self) -> None:
        """Put the stubs of the last suspension back. Run again after an interrupt, it finishes."""
        if self.suspended:
            for swap in self.suspended[-1]:
                swap.start()
            self.suspended.pop()

    def handler_for(
        self, function: Any, args: tuple, kwargs: dict[str, Any]
    ) -> tuple[str, Callable[[tuple, dict[str, Any]], Any]] | None:
        """The kind that a call has among its arguments, and what it goes to, of (args, kwargs)."""
        for kind, handler in self.handlers.get(id(function), ()):
            if kind.looks(args, kwargs):
                return kind.name, lambda args, kwargs, chosen=handler: chosen(*args, **kwargs)
        return None


STUBS = WindowStubs()
