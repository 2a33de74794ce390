"""Whether the kernels that are planned now must serve steps of any length.

Such kernels must not be cut by the length at hand: no blocks that depend on it, no rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STATE = threading.local()


def serves_any_length() -> bool:
    """Whether kernels of this thread must serve any length."""
    return getattr(_STATE, "on", False)


@contextmanager
def any_length() -> Iterator[None]:
    """Kernels that are planned inside serve any length."""
    before, _STATE.on = serves_any_length(), True
    try:
        yield
    finally:
        _STATE.on = before
