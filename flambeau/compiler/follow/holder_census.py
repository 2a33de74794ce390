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

from ...native.foundation.reference_counts import ARGUMENT_REFERENCES

if TYPE_CHECKING:
    from .following import Following
    from .memory_layout import RecycledMemory

# The reference count of an array that only a list and a local variable hold.
HELD_BY_LIST = 2 + ARGUMENT_REFERENCES


class HolderCensus:
    """References to the arrays of some storages, and to all windows that inline caches hold.

    An array is held by its lists, by the windows that caches hold, and by others. Between two
    counts of one generation, arrays with windows and these windows are the same objects. If each
    has as many references as before, each has as many other holders as before: what was found then
    about who is held is true now. Arrays without windows may be other objects, in as many lists:
    what a call allocates itself, as a mask for random numbers, is never the recycled array.
    """

    def __init__(self, recycled: RecycledMemory, storages: Sequence[int]) -> None:
        self.recycled, self.storages = recycled, storages
        self.pick: Callable[[Any], tuple] = itemgetter(*storages) if len(storages) > 1 else \
            lambda owners: tuple([owners[s] for s in storages])
        self.counts: Any = None
        self.are_recycled: list[bool] = []  # whether each owner is the recycled array
        self.generation = -1
        self.answer: Any = None

    def count(self, owners: list[Any]) -> Any:
        """The counts; None if other owners than before are the recycled arrays."""
        arrays = self.pick(owners)
        if [*map(is_, arrays, self.pick(self.recycled.arrays))] != self.are_recycled:
            return None
        count = sys.getrefcount
        return [*map(count, arrays), *map(count, chain.from_iterable(self.recycled.windows))]

    def is_as_before(self, owners: list[Any]) -> bool:
        """Whether `answer`, which was found at the last `note`, holds for these owners."""
        return (self.generation == self.recycled.generation and self.counts is not None
                and self.count(owners) == self.counts)

    def note(self, owners: list[Any], answer: Any) -> None:
        """Note what was found about the owners as they are now."""
        recycled = self.recycled
        self.are_recycled = [*map(is_, self.pick(owners), self.pick(recycled.arrays))]
        have_windows = any(recycled.viewers[s] for s, same in
                           zip(self.storages, self.are_recycled, strict=True) if not same)
        self.counts = None if have_windows else self.count(owners)
        self.generation, self.answer = recycled.generation, answer


def survivors(following: Following) -> frozenset[int]:
    """The storages computed so far that something outside of the call still holds."""
    following.windows.clear()  # their references would count as holders
    segment, owners = following.segment, following.owners
    exit = segment.exit(following.pos)
    census = exit.census
    if census is not None and exit.walked == following.walked and census.is_as_before(owners):
        alive: frozenset[int] = census.answer
        return alive
    alive = _find_survivors(following)
    if segment.has_one_length:
        # Those inside of a backward pass that was one event have no owner.
        exit.walked = following.walked
        exit.census = HolderCensus(segment.recycled, [
            s for s, begins, computed in segment.births
            if max(begins, computed) < following.pos and owners[s] is not None])
        exit.census.note(owners, alive)
    return alive


def _find_survivors(following: Following) -> frozenset[int]:
    alive = set()
    owners, pos, count = following.owners, following.pos, sys.getrefcount
    recycled = following.segment.recycled
    arrays = recycled.arrays
    for s, begins, computed in following.segment.births:
        if begins >= pos:
            break
        owner = owners[s]
        if owner is None or computed >= pos:  # inside a backward pass, or not yet computed
            continue
        others = count(owner) - HELD_BY_LIST - (owner is arrays[s])
        if others > 0 and others > recycled.count_cached_windows(s, owner):
            alive.add(s)
    return frozenset(alive)
