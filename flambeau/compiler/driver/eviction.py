"""Places: which kind of calls gives up its program where there are more kinds than programs.

One that was not called while another came many times. Kinds that all come again and again keep
their places, since to make a program costs as much as hundreds of plain calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

EVICTION_CALLS = 16  # calls of a kind without a program while another is not called at all
MAX_WAITING_KEYS = 64  # kinds that are counted


class SpecializationTable:
    """Counts calls of kinds that have no place."""

    def __init__(self) -> None:
        # by kind: how often it came, and how often the others had been used before
        self._waiting: dict[Hashable, tuple[int, dict[Hashable, int | None]]] = {}

    def idle(self, key: Hashable, used: Mapping[Hashable, int | None]) -> Hashable | None:
        """At a call of a kind without a place: whose place it takes, if any.

        `used`: how often each kind that has one was called; None for those that keep it.
        """
        count, before = self._waiting.pop(key, (0, dict(used)))
        if count + 1 < EVICTION_CALLS:
            self._waiting[key] = count + 1, before
            if len(self._waiting) > MAX_WAITING_KEYS:
                del self._waiting[next(iter(self._waiting))]  # the one that came last long ago
            return None
        return next((single for single, calls in used.items()
                     if calls is not None and before.get(single) == calls), None)
