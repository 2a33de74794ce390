"""Stubs on functions that would not notice a sparse argument, worn from the first sparse tensor on.

`ops/sparse` fills this in; a compiler's capture takes the stubs off and asks `handler_for` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from .code_patching import Swap, swap_of


class SparseStubs:
    """Which functions have a sparse implementation, and the swaps of those that wear a stub."""

    def __init__(self) -> None:
        self.swaps: list[Swap] = []
        self.handlers: dict[int, Callable] = {}
        self.is_sparse_call: Callable[[tuple, dict[str, Any]], bool] | None = None

    def wear(self, function: FunctionType, handler: Callable) -> None:
        """Hands a function's calls with sparse arguments to `handler` from now on."""
        looks = self.is_sparse_call
        assert looks is not None

        def look(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
            return (handler if looks(args, kwargs) else original)(*args, **kwargs)

        swap = swap_of(function, look)
        self.swaps.append(swap)
        swap.start()

    def suspend(self) -> None:
        """Takes the stubs off until `restore`."""
        for swap in reversed(self.swaps):
            swap.restore()

    def restore(self) -> None:
        """Ends a suspension."""
        for swap in self.swaps:
            swap.start()

    def handler_for(
        self, function: Any, args: tuple, kwargs: dict[str, Any]
    ) -> Callable[[tuple, dict[str, Any]], Any] | None:
        """What a call with sparse arguments goes to, of (args, kwargs)."""
        handler = self.handlers.get(id(function))
        if handler is None or not (self.is_sparse_call and self.is_sparse_call(args, kwargs)):
            return None
        chosen = handler
        return lambda args, kwargs: chosen(*args, **kwargs)


STUBS = SparseStubs()
