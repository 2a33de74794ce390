"""StubSet: stubs on public functions that are worn together, while somebody needs them.

There are three: `__torch_function__` and `__torch_dispatch__` need theirs while a mode is on and
from the first object of a class that asks on, sparse and quantized tensors from the first of them
on. A capture takes all of them off meanwhile, and asks what they ask.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from .code_patching import Swap, swap_of

# By function: what its stub calls and the first arguments of that, before (original, args, kwargs).
Targets = Mapping[FunctionType, tuple[Any, ...]]

STUB_SETS: list[StubSet] = []  # in the order in which a capture takes them off


class StubSet:
    """The swaps of some functions, which go on and off together."""

    def __init__(self, find_targets: Callable[[], Targets], is_by_kind: bool = True) -> None:
        self.find_targets, self.is_by_kind = find_targets, is_by_kind
        self.modes = 0  # modes that are on, in any thread
        self.permanent = False  # a tensor was met whose calls must be looked at
        self.is_on = False
        self.targets: Targets = {}
        self.swaps: dict[FunctionType, Swap] = {}
        self.suspended: list[list[Swap]] = []  # what each suspension took off
        self.lock = threading.RLock()
        STUB_SETS.append(self)

    def update(self) -> None:
        """Put the stubs on where somebody needs them, and take them off where nobody does."""
        with self.lock:
            if not self.modes and not self.permanent:
                self._take_off(list(self.swaps.values()))
                return
            if not self.is_on:
                self._make_swaps()
                self.is_on = True
            for swap in self.swaps.values():
                swap.start()

    def renew(self) -> None:
        """Looks for new targets, and puts all stubs on that somebody needs."""
        self.is_on = False
        self.update()

    def enter(self) -> None:
        """A mode is on that needs the stubs."""
        self.modes += 1
        self.update()

    def leave(self) -> None:
        """End `enter`."""
        self.modes -= 1
        self.update()

    def need_always(self) -> None:
        """Keep the stubs on from now on."""
        if not self.permanent:
            self.permanent = True
            self.update()

    def suspend(self) -> None:
        """Take the stubs off that are on, until the matching `restore`."""
        with self.lock:
            worn = [swap for swap in self.swaps.values() if swap.is_on]
            self.suspended.append(worn)
            self._take_off(worn)

    def restore(self) -> None:
        """Put the stubs of the last suspension back, if somebody still needs them.

        Run again after an interrupt, it finishes.
        """
        with self.lock:
            if self.suspended:
                if self.modes or self.permanent:
                    for swap in self.suspended[-1]:
                        swap.start()
                self.suspended.pop()

    def _take_off(self, swaps: list[Swap]) -> None:
        for swap in reversed(swaps):
            swap.restore()
        self.is_on = False

    def _make_swaps(self) -> None:
        """Make swaps for functions that are targets since the last time, or in another way.

        Others have theirs: making all of them anew costs several times as much as a mode's entry.
        """
        targets = dict(self.find_targets())
        if targets == self.targets:
            return
        for function, (handle, *first) in targets.items():
            if self.targets.get(function) != targets[function]:
                recorder = functools.partial(handle, *first)
                self.swaps[function] = swap_of(function, recorder, self.is_by_kind)
        for function in self.targets.keys() - targets.keys():
            del self.swaps[function]
        self.targets = targets
