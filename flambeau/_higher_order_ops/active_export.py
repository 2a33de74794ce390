"""State of running exports and traces, behind torch.compiler.is_exporting and
torch.jit.is_tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "active_recorder", "exporting", "is_exporting", "is_jit_tracing", "jit_tracing", "recording",
]

_active: ContextVar[bool] = ContextVar("exporting", default=False)
_tracing: ContextVar[bool] = ContextVar("jit_tracing", default=False)
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


def jit_tracing() -> AbstractContextManager[None]:
    """Context manager of a run by torch.jit.trace."""
    return _set(_tracing, True)


def is_jit_tracing() -> bool:
    """Return whether torch.jit.trace runs the calling code."""
    return _tracing.get()


def recording(recorder: Any) -> AbstractContextManager[None]:
    """Context manager in which a recorder turns calls into nodes."""
    return _set(_recorder, recorder)


def active_recorder() -> Any:
    """Return the recorder that turns calls into nodes, or None."""
    return _recorder.get()
