"""State of running exports and traces, behind torch.compiler.is_exporting and
torch.jit.is_tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "active_recorder", "exporting", "is_exporting", "is_jit_tracing", "jit_tracing",
    "read_observer", "recording",
]

_active: ContextVar[bool] = ContextVar("exporting", default=False)
_tracing: ContextVar[Callable[[str], None] | None] = ContextVar("jit_tracing", default=None)
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
