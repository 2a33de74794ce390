"""Expansions: what a recorder runs in the place of calls that the reader of a graph lacks.

An exporter to another format names them with `expanding`. The recorder then records the calls that
an expansion makes, which may be expanded in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["Expansion", "active_expansions", "expanding"]

# Takes a public function, its aten operator's name, and the arguments for both; returns a call.
Expansion = Callable[[Any, str, tuple[Any, ...]], Callable[[], Any] | None]

_active: ContextVar[Expansion | None] = ContextVar("expansions", default=None)


@contextmanager
def expanding(find: Expansion) -> Iterator[None]:
    """Record, in the place of a call, the call without arguments that `find` returns for it.

    `find(function, name, arguments)`: the public function, the name of its aten operator, and the
    arguments of both, `(args, kwargs, aten_args, aten_kwargs)`. None keeps the call.
    """
    token = _active.set(find)
    try:
        yield
    finally:
        _active.reset(token)


def active_expansions() -> Expansion | None:
    """Return the function that finds expansions, or None."""
    return _active.get()
