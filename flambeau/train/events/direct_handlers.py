"""The handlers of per-step events, as functions of the run alone.

The loop iterates over such a list and only calls. A handler detached during the iteration must not
be called any more, so it is also replaced in the lists being iterated.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .handlers import Entry


class Calls(list[Callable[[Any], Any]]):
    """The functions of entries, in order."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(entry.of_run for entry in entries if entry.of_run is not None)
        self.entries = entries


class Direct:
    """The handlers of an event: `calls`, or None if some are not functions of the run alone."""

    def __init__(self) -> None:
        self.calls: Calls | None = Calls(())
        self._calls_in_use: list[weakref.ref[Calls]] = []  # an iteration keeps its list alive

    def renew(self, entries: Sequence[Entry]) -> None:
        """Replace the event's handlers by these."""
        self.calls = None
        self._calls_in_use = [calls for calls in self._calls_in_use if calls() is not None]
        if all(entry.of_run is not None for entry in entries):
            self.calls = Calls(entries)
            self._calls_in_use.append(weakref.ref(self.calls))

    def drop(self, entry: Entry) -> None:
        """Stop calling an entry, also in iterations under way."""
        for reference in self._calls_in_use:
            calls = reference()
            if calls is not None and entry in calls.entries:
                calls[calls.entries.index(entry)] = _ignore


def _ignore(run: Any) -> None:
    """Replace a detached handler."""
