"""The priority of threads that compile in the background."""

from __future__ import annotations

import os
import sys
from threading import get_native_id

from ..target.compile_costs import BACKGROUND_NICENESS


def yield_to_others(level: int = BACKGROUND_NICENESS) -> None:
    """Lower this thread's priority for good (Linux only); never raise it."""
    if sys.platform == "linux":
        thread = get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, thread,
                           max(level, os.getpriority(os.PRIO_PROCESS, thread)))
        except OSError:
            pass  # not permitted: the thread competes at normal priority
