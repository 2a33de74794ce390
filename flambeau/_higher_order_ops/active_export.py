"""Which export or trace runs, if one does: programs ask by torch.compiler.is_exporting and
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
    """A region that is part of an export."""
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def is_exporting() -> bool:
    """Whether the code that asks is being exported."""
    return _active.get()


@contextmanager
def jit_tracing() -> Iterator[None]:
    """A region that torch.jit.trace runs."""
    token = _tracing.set(True)
    try:
        yield
    finally:
        _tracing.reset(token)


def is_jit_tracing() -> bool:
    """Whether torch.jit.trace runs the code that asks."""
    return _tracing.get()


@contextmanager
def recording(recorder: Any) -> Iterator[None]:
    """A region whose calls a recorder turns into nodes."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def active_recorder() -> Any:
    """What turns calls into nodes; None if nothing does."""
    return _recorder.get()
