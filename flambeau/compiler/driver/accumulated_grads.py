"""AccumulatedGrads: leaves whose grad is None in some calls only, as in gradient accumulation."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from ...tensor.tensor import Tensor


class AccumulatedGrads:
    """The leaves, and which of their grads are None now. Calls that differ in it have different
    specializations."""

    def __init__(self) -> None:
        self._leaves: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()

    def read_absent(self) -> tuple[bool, ...]:
        """Return for each leaf whether its grad is None."""
        return tuple(leaf._grad is None for leaf in self._leaves.values())

    def note(self, *calls: Iterable[tuple[Tensor, bool]]) -> bool:
        """Add the leaves about which calls disagree, and return whether there is a new one.

        `calls`: (leaf, whether its grad was None) for each grad that a call read. A single call is
        compared with the grads as they are now.
        """
        leaves: dict[int, Tensor] = {}
        absences: dict[int, set[bool]] = {}
        for leaf, absent in (pair for call in calls for pair in call):
            leaves[id(leaf)] = leaf
            now = set() if len(calls) > 1 else {leaf._grad is None}
            absences.setdefault(id(leaf), now).add(absent)
        new = {key: leaves[key] for key, values in absences.items()
               if len(values) > 1 and key not in self._leaves}
        self._leaves.update(new)
        return bool(new)

    def clear(self) -> None:
        """Forget all leaves."""
        self._leaves.clear()
