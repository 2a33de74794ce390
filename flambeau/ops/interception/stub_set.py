"""StubSet: a group of stubs on public functions, installed together while they are needed.

There are three: those of `__torch_function__` and `__torch_dispatch__` are needed while a mode is
on, and permanently once an object of an overriding class exists; those of sparse and quantized
tensors once one exists. A capture removes all of them meanwhile, and does their checks itself.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from .code_patching import Swap, end_lingering, swap_of

# By function: the handler and its first arguments, followed by (original, args, kwargs).
Targets = Mapping[FunctionType, tuple[Any, ...]]

STUB_SETS: list[StubSet] = []  # in the order in which a capture suspends them


class StubSet:
    """Swaps of several functions, installed and removed together."""

    def __init__(self, find_targets: Callable[[], Targets], is_by_kind: bool = True) -> None:
        self.find_targets, self.is_by_kind = find_targets, is_by_kind
        self.modes = 0  # active modes in any thread
        self.permanent = False  # a tensor exists whose calls must be checked
        self.is_on = False
        self.targets: Targets = {}
        self.swaps: dict[FunctionType, Swap] = {}
        self.suspended: list[list[Swap]] = []  # swaps removed by each suspension
        self.lock = threading.RLock()
        STUB_SETS.append(self)

    def update(self) -> None:
        """Install the stubs if they are needed, otherwise remove them."""
        with self.lock:
            if not self.modes and not self.permanent:
                self._take_off(list(self.swaps.values()))
                return
            self._put_on()

    def renew(self) -> None:
        """Look for new targets, and install all stubs if they are needed."""
        self.is_on = False
        self.update()

    def enter(self) -> None:
        """Count a mode that needs the stubs, and install them."""
        with self.lock:
            self.modes += 1
            self.update()

    def leave(self) -> None:
        """Undo `enter`."""
        with self.lock:
            self.modes -= 1
            self.update()

    def need_always(self) -> None:
        """Install the stubs permanently.

        Other threads wait until all are on, and the next call finishes what an interrupt left.
        """
        if not self.permanent:
            with self.lock:
                self._put_on()
                self.permanent = True

    def suspend(self) -> None:
        """Remove the installed stubs until the matching `restore`."""
        with self.lock:
            worn = [swap for swap in self.swaps.values() if swap.is_on]
            self.suspended.append(worn)
            self._take_off(worn)

    def restore(self) -> None:
        """Reinstall the stubs of the last suspension if they are still needed.

        Safe to call again after an interrupt.
        """
        with self.lock:
            if self.suspended:
                if self.modes or self.permanent:
                    for swap in self.suspended[-1]:
                        swap.start()
                self.suspended.pop()

    def _put_on(self) -> None:
        if not self.is_on:
            # Stubs of an earlier vmap would lie below these, those of the next one above.
            end_lingering()
            self._make_swaps()
            self.is_on = True
        for swap in self.swaps.values():
            swap.start()

    def _take_off(self, swaps: list[Swap]) -> None:
        for swap in reversed(swaps):
            swap.restore()
        self.is_on = False

    def _make_swaps(self) -> None:
        """Create swaps for new or changed targets.

        Existing ones are reused: creating all again costs several times as much as entering a mode.
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
