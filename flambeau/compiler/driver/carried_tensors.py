"""The places whose tensors a compiled function's calls take over from the calls before.

A place is added once a recorded call has read a tensor there and replaced it. From then on its
tensor is a leaf of every call, after those of the arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from ...native.target.compile_costs import MAX_CARRIED_PLACES, MAX_CARRYING_RESTARTS
from ..trace.carried_values import Carried, is_same_place, list_leaves, read_carried
from ..trace.host_numbers import Place


class CarriedTensors:
    """The places, and how often recording began anew because one was added.

    Objects are referred to weakly, so that one that the program replaces can die with the programs
    that read it. Dicts, lists and cells cannot be.
    """

    def __init__(self) -> None:
        self._finders: list[Callable[[], Place | None]] = []
        self._restarts = 0
        self._calls = 0  # that came before the last restart

    @property
    def places(self) -> list[Place]:
        """The places whose owners live."""
        return [place for find in self._finders if (place := find()) is not None]

    def add(self, places: Iterable[Place], calls: int) -> bool:
        """Add places; return whether any was new. `calls`: how many calls were recorded so far."""
        known = self.places
        new = [place for place in places
               if not any(is_same_place(place, earlier) for earlier in known)]
        if not new or self._restarts == MAX_CARRYING_RESTARTS or (
            len(known) + len(new) > MAX_CARRIED_PLACES
        ):
            return False
        self._finders = [*map(_refer_to, [*known, *new])]
        self._restarts += 1
        self._calls = calls
        return True

    def take_calls(self) -> int:
        """Return how many calls came before the last restart, once."""
        calls, self._calls = self._calls, 0
        return calls

    def read(self) -> list[Carried]:
        """Read what the next call takes over."""
        return read_carried(self.places)

    def read_leaves(self) -> list[Any]:
        """Read the leaves of what the next call takes over."""
        return list_leaves(self.read())

    def clear(self) -> None:
        """Forget all places."""
        self._finders, self._restarts, self._calls = [], 0, 0


def _refer_to(place: Place) -> Callable[[], Place | None]:
    """Return a function that returns the place, or None once its owner is gone."""
    try:
        refer = weakref.ref(place.owner)
    except TypeError:
        return lambda: place
    key, is_attribute = place.key, place.is_attribute

    def find() -> Place | None:
        owner = refer()
        return None if owner is None else Place(owner, key, is_attribute)

    return find
