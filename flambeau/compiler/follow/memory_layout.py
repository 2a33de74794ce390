"""Memory laid out as a recorded storage was, without values; taken again from call to call.

What a call made is often dead when the next one needs the like: grads after zero_grad, a loss that
was printed. The next call then has the same arrays, so windows on them can be given again too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...native.foundation.reference_counts import ARGUMENT_REFERENCES
from ...tensor.exposed_memory import is_exposed

Geometry = tuple[tuple[int, ...], tuple[int, ...], np.dtype]  # shape, strides, dtype


def laid_out(whole: Geometry) -> np.ndarray:
    """An array of its own memory with a shape, strides and a dtype."""
    shape, strides, kind = whole
    result = np.empty(shape, kind)
    if result.strides == strides:
        return result
    like = np.lib.stride_tricks.as_strided(np.zeros(1, kind), shape, strides)
    return np.empty_like(like, order="K", subok=False)


# What is counted for an array in a list and in a variable, if nobody else holds it.
HELD_BY_LIST = 2 + ARGUMENT_REFERENCES


class RecycledMemory:
    """The arrays that the last call put into a segment's storages. One that nobody holds any more
    serves the next call.

    arrays: by storage; lists of arrays that generated code reads.
    """

    def __init__(self, geometries: list[Geometry]) -> None:
        self.geometries = geometries
        self.arrays: list[np.ndarray | None] = [None] * len(geometries)
        # Inline caches that hold windows on a storage: (what has `views`, place there).
        self.viewers: list[list[tuple[Any, int]]] = [[] for _ in geometries]

    def take(self, s: int) -> np.ndarray:
        """An array for a storage: the last call's, or a new one."""
        array = self.arrays[s]
        if array is not None and not is_exposed(array) and \
                sys.getrefcount(array) <= HELD_BY_LIST + self.count_cached_windows(s, array):
            return array
        array = self.arrays[s] = laid_out(self.geometries[s])
        return array

    def count_cached_windows(self, s: int, array: np.ndarray) -> int:
        """How many windows on an array are held by inline caches only."""
        count = 0
        for viewer, k in self.viewers[s]:
            views = viewer.views
            if views and views[k] is not None and views[k].base is array \
                    and sys.getrefcount(views[k]) <= 2:
                count += 1
        return count

    def drop(self) -> None:
        """Gives the memory back, for a segment that calls do not come by any more."""
        self.arrays[:] = [None] * len(self.arrays)
        for viewers in self.viewers:
            for viewer, k in viewers:
                if viewer.views:
                    viewer.views[k] = None
