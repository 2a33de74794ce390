"""HolderCensus: tells in a few built-in calls that as many hold a segment's memory as last time.

Who still holds an array decides whether the next call may have it, and whether a program must
compute it. Asking for one after another is a fifth of what a followed call runs; mostly the answers
are last call's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .memory_layout import RecycledMemory


class HolderCensus:
    """References to the arrays of some storages, and to all windows that inline caches hold.

    An array is held by its lists, by the windows that caches hold, and by others. Between two
    counts of one generation, arrays with windows and these windows are the same objects. If each has
    as many references as before, each has as many other holders as before: what was found then about
    who is held holds now. Arrays without windows may be others; their lists are the same number.
    """

    def __init__(self, recycled: RecycledMemory, storages: Sequence[int]) -> None:
        self.recycled = recycled
        self.pick: Callable[[Any], tuple] = itemgetter(*storages) if len(storages) > 1 else \
            lambda owners: tuple([owners[s] for s in storages])
        self.counts: Any = None
        self.generation = -1
        self.answer: Any = None

    def count(self, owners: list[Any]) -> Any:
        """The counts; None if an owner is not the recycled array."""
        arrays = self.pick(owners)
        if not all(map(is_, arrays, self.pick(self.recycled.arrays))):
            return None
        count = sys.getrefcount
        return [*map(count, arrays), *map(count, chain.from_iterable(self.recycled.windows))]

    def is_as_before(self, owners: list[Any]) -> bool:
        """Whether `answer`, which was found at the last `note`, holds for these owners."""
        return (self.generation == self.recycled.generation and self.counts is not None
                and self.count(owners) == self.counts)

    def note(self, owners: list[Any], answer: Any) -> None:
        """Note what was found about the owners as they are now."""
        self.counts, self.generation = self.count(owners), self.recycled.generation
        self.answer = answer
