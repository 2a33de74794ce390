"""HolderCensus: check cheaply that a segment's memory has as many holders as last time.

Whether anyone still holds an array decides if the next call may reuse it, and if a program must
compute it. Counting holders array by array takes a fifth of a followed call, and the answers rarely
change between calls; a census needs a few built-in calls.
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

# sys.getrefcount of an array held only by a list and a local variable.
HELD_BY_LIST = 2 + ARGUMENT_REFERENCES


class HolderCensus:
    """Reference counts of the arrays of some storages and of all windows in inline caches.

    An array is held by its lists, by cached windows, and by others. Within one generation, arrays
    with windows and the windows themselves stay the same objects. So if every reference count is
    unchanged, every number of other holders is too, and the last answer still holds. Arrays without
    windows may be different objects in equally many lists: memory that a call allocates itself,
    such as a mask of random numbers, is never the recycled array.
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
        """Return the counts; None if a different set of owners is recycled than before."""
        arrays = self.pick(owners)
        if [*map(is_, arrays, self.pick(self.recycled.arrays))] != self.are_recycled:
            return None
        count = sys.getrefcount
        return [*map(count, arrays), *map(count, chain.from_iterable(self.recycled.windows))]

    def is_as_before(self, owners: list[Any]) -> bool:
        """Whether `answer`, stored by the last `note`, still holds for these owners."""
        return (self.generation == self.recycled.generation and self.counts is not None
                and self.count(owners) == self.counts)

    def note(self, owners: list[Any], answer: Any) -> None:
        """Store an answer about the owners, with their current counts."""
        recycled = self.recycled
        self.are_recycled = [*map(is_, self.pick(owners), self.pick(recycled.arrays))]
        have_windows = any(recycled.viewers[s] for s, same in
                           zip(self.storages, self.are_recycled, strict=True) if not same)
        self.counts = None if have_windows else self.count(owners)
        self.generation, self.answer = recycled.generation, answer


def take_census(following: Following) -> frozenset[int]:
    """Return the storages computed so far that something outside the call still holds."""
    following.windows.clear()  # their references would count as holders
    alive = _read_or_find_survivors(following)
    segment = following.segment
    segment.recycled.survivors = alive if following.pos == segment.count else None
    return alive


def _read_or_find_survivors(following: Following) -> frozenset[int]:
    segment, owners = following.segment, following.owners
    exit = segment.exit(following.pos)
    census = exit.census
    if census is not None and exit.walked == following.walked and census.is_as_before(owners):
        alive: frozenset[int] = census.answer
        return alive
    alive = _find_survivors(following)
    if segment.has_one_length:
        # Storages inside a backward pass that was one event have no owner.
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
