"""Allocate the storages of a segment, and recycle them from call to call.

Memory that one call allocates is often free by the next: grads after zero_grad, a loss that was
printed. The next call then gets the same arrays, and the windows on them can be reused too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...tensor.exposed_memory import EXPOSED, is_exposed
from ...tensor.layout import ensure_strides
from ..trace.trace_signature import Geometry
from .holder_census import HELD_BY_LIST, HolderCensus


def allocate(geometry: Geometry) -> np.ndarray:
    """Return a new, uninitialized array with the given shape, strides and dtype."""
    shape, strides, dtype = geometry
    return ensure_strides(np.empty(shape, dtype), strides)


class RecycledMemory:
    """The arrays that the last call allocated for a segment's storages.

    The next call reuses an array if nobody else holds it.
    arrays: by storage. Generated code refers to this list, so it is never replaced.
    windows: the lists of windows held by inline caches and backward passes.
    generation: increases when such a window, or an array with windows, is replaced.
    ready: storages whose arrays are bound at the start of every call.
    survivors: the computed storages that somebody else held when the last call ended; None if it
        ended before the segment did.
    """

    def __init__(self, geometries: list[Geometry]) -> None:
        self.geometries = geometries
        self.arrays: list[np.ndarray | None] = [None] * len(geometries)
        # Inline caches with windows on a storage: (object with `views`, index there).
        self.viewers: list[list[tuple[Any, int]]] = [[] for _ in geometries]
        self.windows: list[list[np.ndarray | None]] = []
        self.generation = 0
        self.ready: frozenset[int] = frozenset()
        self.ready_ids: set[int] = set()
        self.census: HolderCensus | None = None
        self.survivors: frozenset[int] | None = None

    def take(self, s: int) -> np.ndarray:
        """Return an array for a storage: the last call's if free, else a new one."""
        array = self.arrays[s]
        if array is not None and not is_exposed(array) and \
                sys.getrefcount(array) <= HELD_BY_LIST + self.count_cached_windows(s, array):
            return array
        array = self.arrays[s] = allocate(self.geometries[s])
        if self.viewers[s]:
            self.generation += 1
        return array

    def choose_ready(self, storages: frozenset[int]) -> None:
        """Set the storages whose arrays are bound at the start of every call: those that nobody is
        expected to hold between calls."""
        self.ready, self.survivors = storages, None
        self.census = HolderCensus(self, sorted(storages)) if storages else None

    def refresh(self) -> None:
        """Replace the arrays of ready storages that are still held.

        The others cannot gain a holder before the call hands them out.
        """
        census, survivors, self.survivors = self.census, self.survivors, None
        if census is None:
            return
        # What nobody held cannot gain a holder.
        is_free = survivors is not None and self.ready.isdisjoint(survivors)
        if (is_free or census.is_as_before(self.arrays)) \
                and EXPOSED.keys().isdisjoint(self.ready_ids):
            return
        for s in self.ready:
            self.take(s)
        census.note(self.arrays, None)
        self.ready_ids = {id(self.arrays[s]) for s in self.ready}

    def count_cached_windows(self, s: int, array: np.ndarray) -> int:
        """Count the windows on an array that only inline caches and backward passes hold."""
        count = 0
        for viewer, k in self.viewers[s]:
            views = viewer.views
            if views and views[k] is not None and views[k].base is array \
                    and sys.getrefcount(views[k]) <= 2:
                count += 1
        return count

    def drop(self) -> None:
        """Free the memory of a segment that calls no longer follow."""
        self.generation += 1
        self.arrays[:] = [None] * len(self.arrays)
        for viewers in self.viewers:
            for viewer, k in viewers:
                if viewer.views:
                    viewer.views[k] = None
