"""any_length: plan kernels that must serve steps of any length.

Such kernels must not depend on the length of the recorded step: no blocks sized by it, and no
remainder loops.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STATE = threading.local()


def serves_any_length() -> bool:
    """Whether kernels planned on this thread must serve any length."""
    return getattr(_STATE, "on", False)


@contextmanager
def plan_for_any_length() -> Iterator[None]:
    """Plan the kernels inside for any length."""
    before, _STATE.on = serves_any_length(), True
    try:
        yield
    finally:
        _STATE.on = before
