"""The places whose tensors a compiled function's calls take over from the calls before.

A place is added once a recorded call has read a tensor there and replaced it. From then on its
tensor is a leaf of every call, after those of the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...native.target.compile_costs import MAX_CARRIED_PLACES, MAX_CARRYING_RESTARTS
from ..trace.carried_values import Carried, is_same_place, list_leaves, read_carried
from ..trace.host_numbers import Place


class CarriedTensors:
    """The places, and how often recording began anew because one was added."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._restarts = 0
        self._calls = 0  # that came before the last restart

    def add(self, places: Iterable[Place], calls: int) -> bool:
        """Add places; return whether any was new. `calls`: how many calls were recorded so far."""
        new = [place for place in places
               if not any(is_same_place(place, known) for known in self.places)]
        if not new or self._restarts == MAX_CARRYING_RESTARTS or (
            len(self.places) + len(new) > MAX_CARRIED_PLACES
        ):
            return False
        self.places = [*self.places, *new]
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
        self.places, self._restarts, self._calls = [], 0, 0
