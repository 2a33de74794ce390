"""LingeringStubs: stubs on all operators, for forward mode and vmap, that are removed lazily.

Installing them costs as much as checking hundreds of calls in vain. So they stay on for some calls
after the last use, in case they are needed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from .code_patching import LINGERING, Swap, swap_of


class LingeringStubs:
    """Swaps that are on while some thread needs them, and for some calls afterwards."""

    most_idle_calls = 1000  # together they cost as much as installing the stubs

    def __init__(self, find_targets: Callable[[], Iterable[tuple[Callable, Callable]]]) -> None:
        self.find_targets = find_targets
        self.uses = 0
        self.idle_calls = 0
        self.swaps: list[Swap] = []
        self.lock = threading.RLock()
        self.lingering = self.take_off  # in LINGERING while the stubs linger

    def turn(self, on: bool) -> None:
        """Count uses up or down; install the stubs at the first, let them linger after the last."""
        with self.lock:
            self.uses += 1 if on else -1
            if not self.uses:
                self.idle_calls = 0
                LINGERING.append(self.lingering)
                return
            if self.uses == 1 and LINGERING:
                if LINGERING[-1] is self.lingering:  # the last transform was of this kind
                    LINGERING.pop()
                elif self.lingering in LINGERING:
                    LINGERING.remove(self.lingering)
            if not self.swaps:
                self.swaps = [swap_of(f, record) for f, record in self.find_targets()]
                for swap in self.swaps:
                    swap.start()

    def take_off(self) -> None:
        """Remove the stubs if they are lingering."""
        with self.lock:
            if self.lingering in LINGERING:
                for swap in reversed(self.swaps):
                    swap.restore()
                self.swaps = []
                LINGERING.remove(self.lingering)

    def count_idle_call(self) -> None:
        """Count a call without use; after many of them, remove the stubs."""
        if self.uses:
            return
        self.idle_calls += 1
        if self.idle_calls > self.most_idle_calls:
            self.take_off()
