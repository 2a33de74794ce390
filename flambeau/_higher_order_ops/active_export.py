"""State of running exports and traces, behind torch.compiler.is_exporting and
torch.jit.is_tracing, and what a recorder runs in the place of calls that a format lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from ..ops.interception.torch_function import STATE

__all__ = [
    "Expansion", "active_expansions", "active_recorder", "expanding", "exporting", "is_exporting",
    "is_jit_tracing", "jit_tracing", "keeping", "kept_operators", "read_observer", "recording",
    "retracing_recorder",
]

_active: ContextVar[bool] = ContextVar("exporting", default=False)
_tracing: ContextVar[Callable[[str], None] | None] = ContextVar("jit_tracing", default=None)
# Takes a public function, its aten operator's name, and the arguments for both; returns a call.
Expansion = Callable[[Any, str, tuple[Any, ...]], Callable[[], Any] | None]
_expansions: ContextVar[Expansion | None] = ContextVar("expansions", default=None)
_kept: ContextVar[tuple[Any, ...]] = ContextVar("kept_operators", default=())
_recorder: ContextVar[Any] = ContextVar("recorder", default=None)


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def exporting() -> AbstractContextManager[None]:
    """Context manager of an export."""
    return _set(_active, True)


def is_exporting() -> bool:
    """Return whether the calling code is being exported."""
    return _active.get()


def jit_tracing(note_read: Callable[[str], None]) -> AbstractContextManager[None]:
    """Context manager of a run by torch.jit.trace.

    `note_read` is called with the method by which the program reads a tensor's value.
    """
    return _set(_tracing, note_read)


def is_jit_tracing() -> bool:
    """Return whether torch.jit.trace runs the calling code."""
    return _tracing.get() is not None


def read_observer() -> Callable[[str], None] | None:
    """Return what torch.jit.trace does when the program reads a tensor's value."""
    return _tracing.get()


def recording(recorder: Any) -> AbstractContextManager[None]:
    """Context manager in which a recorder turns calls into nodes."""
    return _set(_recorder, recorder)


def active_recorder() -> Any:
    """Return the recorder that turns calls into nodes, or None."""
    return _recorder.get()


def retracing_recorder() -> Any:
    """Return the active recorder where it sees calls: None where they are hidden from it."""
    recorder = _recorder.get()
    return recorder if recorder in STATE.modes else None


def expanding(find: Expansion) -> AbstractContextManager[None]:
    """Context manager in which a recorder runs, in the place of a call, what `find` returns for it.

    `find(function, name, arguments)`: the public function, the name of its aten operator, and the
    arguments of both, `(args, kwargs, aten_args, aten_kwargs)`. It returns a function without
    arguments, whose calls are recorded and may be expanded in turn, or None to keep the call.
    """
    return _set(_expansions, find)


def active_expansions() -> Expansion | None:
    """Return the function that finds expansions, or None."""
    return _expansions.get()


def keeping(operators: Iterable[Any]) -> AbstractContextManager[None]:
    """Context manager in which a recorder keeps calls of these custom operators as nodes; of others
    it records what the kernel calls."""
    return _set(_kept, tuple(operators))


def kept_operators() -> tuple[Any, ...]:
    """Return the custom operators whose calls a recorder keeps."""
    return _kept.get()
