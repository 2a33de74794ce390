"""Swap: functions whose code is replaced for a while, wherever they were imported to.

A function object keeps its identity; its `__code__` becomes a stub that calls a recorder with a
clone of the original. Nothing is paid while nothing is swapped.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

# recorder(clone, args, kwargs): what a swapped function does instead.
Recorder = Callable[[Callable, tuple, dict], Any]


@functools.cache
def _stub(free: int) -> types.CodeType:
    """The code of a stub with as many free variables as the code that it stands in for."""
    names = [f"free{i}" for i in range(free)]
    source = "\n".join([
        f"def outer({', '.join(names)}):",
        "    def stub(*args, _record=None, **kwargs):",
        f"        {'; '.join(names) or 'pass'}",
        "        return _record(args, kwargs)",
        "    return stub",
    ])  # fmt: skip
    space: dict[str, Any] = {}
    exec(compile(source, "<flambeau capture>", "exec"), space)
    return space["outer"](*names).__code__


def clone(
    function: types.FunctionType, closure: Any = None, names: dict[str, Any] | None = None
) -> types.FunctionType:
    """Another function with the same code, for when the original's has been swapped."""
    made = types.FunctionType(
        function.__code__, function.__globals__ if names is None else names,
        function.__name__, function.__defaults__,
        function.__closure__ if closure is None else closure,
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


class Swap:
    """One function that is swapped from `start` on; `restore` gives it its own code back."""

    __slots__ = ("code", "defaults", "function", "kwdefaults", "record")

    def __init__(self, function: types.FunctionType, recorder: Recorder) -> None:
        self.function = function
        self.keep()
        self.record = functools.partial(recorder, clone(function))

    def start(self) -> None:
        """Gives the function the code of a stub."""
        function = self.function
        function.__kwdefaults__ = {"_record": self.record}
        function.__defaults__ = None
        function.__code__ = _stub(len(function.__code__.co_freevars))

    def keep(self) -> None:
        """Remembers the function's present code as its own."""
        function = self.function
        self.code, self.defaults = function.__code__, function.__defaults__
        self.kwdefaults = function.__kwdefaults__

    def restore(self) -> None:
        """Gives the function its own code back."""
        function = self.function
        function.__code__, function.__defaults__ = self.code, self.defaults
        function.__kwdefaults__ = self.kwdefaults
