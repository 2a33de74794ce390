"""LingeringStubs: stubs on all operators, for forward mode and vmap, that outlast their use.

Putting them on costs as much as hundreds of calls that they look at for nothing. So they stay on
after the last use, for some calls; the next use finds them there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from .code_patching import LINGERING, Swap, swap_of


class LingeringStubs:
    """The swaps that are on while some thread needs them, and for some calls after it."""

    most_idle_calls = 1000  # they cost together what starting does

    def __init__(self, find_targets: Callable[[], Iterable[tuple[Callable, Callable]]]) -> None:
        self.find_targets = find_targets
        self.uses = 0
        self.idle_calls = 0
        self.swaps: list[Swap] = []
        self.lock = threading.RLock()

    def turn(self, on: bool) -> None:
        """Count uses; the first puts the stubs on, after the last they linger."""
        with self.lock:
            self.uses += 1 if on else -1
            if not self.uses:
                self.idle_calls = 0
                LINGERING.append(self.take_off)
                return
            if self.take_off in LINGERING:
                LINGERING.remove(self.take_off)
            if not self.swaps:
                self.swaps = [swap_of(f, record) for f, record in self.find_targets()]
                for swap in self.swaps:
                    swap.start()

    def take_off(self) -> None:
        """Take the stubs off that linger."""
        with self.lock:
            if self.take_off in LINGERING:
                for swap in reversed(self.swaps):
                    swap.restore()
                self.swaps = []
                LINGERING.remove(self.take_off)

    def count_idle_call(self) -> None:
        """Take the stubs off after many calls that nobody needed them for."""
        if self.uses:
            return
        self.idle_calls += 1
        if self.idle_calls > self.most_idle_calls:
            self.take_off()
