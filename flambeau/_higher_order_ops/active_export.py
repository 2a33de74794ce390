"""State of running exports and traces, behind torch.compiler.is_exporting and
torch.jit.is_tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = [
    "active_recorder", "exporting", "is_exporting", "is_jit_tracing", "jit_tracing", "recording",
]

_active: ContextVar[bool] = ContextVar("exporting", default=False)
_tracing: ContextVar[bool] = ContextVar("jit_tracing", default=False)
_recorder: ContextVar[Any] = ContextVar("recorder", default=None)


@contextmanager
def exporting() -> Iterator[None]:
    """Context manager of an export."""
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def is_exporting() -> bool:
    """Return whether the calling code is being exported."""
    return _active.get()


@contextmanager
def jit_tracing() -> Iterator[None]:
    """Context manager of a run by torch.jit.trace."""
    token = _tracing.set(True)
    try:
        yield
    finally:
        _tracing.reset(token)


def is_jit_tracing() -> bool:
    """Return whether torch.jit.trace runs the calling code."""
    return _tracing.get()


@contextmanager
def recording(recorder: Any) -> Iterator[None]:
    """Context manager in which a recorder turns calls into nodes."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def active_recorder() -> Any:
    """Return the recorder that turns calls into nodes, or None."""
    return _recorder.get()
