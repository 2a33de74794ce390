"""Eviction: choose the specialization that makes room for a new one.

A victim must have gone unused during many calls of the key that wants its place. If all
specializations are in use, they stay, because compiling costs as much as hundreds of eager calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ...native.target.compile_costs import EVICTION_CALLS, MAX_WAITING_KEYS


class SpecializationTable:
    """Counts the calls of keys that have no specialization."""

    def __init__(self) -> None:
        # key -> (calls, uses of each specialization before the first of them)
        self._waiting: dict[Hashable, tuple[int, dict[Hashable, int | None]]] = {}

    def choose_victim(self, key: Hashable, used: Mapping[Hashable, int | None]) -> Hashable | None:
        """Count a call of a key without a specialization; return the key to evict, or None.

        used: the number of calls of each specialization; None for those that must stay.
        """
        count, before = self._waiting.pop(key, (0, dict(used)))
        if count + 1 < EVICTION_CALLS:
            self._waiting[key] = count + 1, before
            if len(self._waiting) > MAX_WAITING_KEYS:
                del self._waiting[next(iter(self._waiting))]  # the least recently called
            return None
        return next((single for single, calls in used.items()
                     if calls is not None and before.get(single) == calls), None)
