"""Whether an export runs, which programs ask by torch.compiler.is_exporting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["exporting", "is_exporting"]

_active: ContextVar[bool] = ContextVar("exporting", default=False)


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
