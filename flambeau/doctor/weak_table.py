"""WeakTable: a weak mapping keyed by identity. The doctor must not call a user's `__hash__` and
`__eq__`: those of torchmetrics read attributes that are set after construction."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any, TypeVar

V = TypeVar("V")


class WeakTable(MutableMapping[Any, V]):
    """Maps objects to values by identity; an entry disappears when its object dies."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __setitem__(self, owner: Any, value: V) -> None:
        key, entries = id(owner), self._entries
        entries[key] = weakref.ref(owner, lambda _: entries.pop(key, None)), value

    def __getitem__(self, owner: Any) -> V:
        return self._entries[id(owner)][1]

    def __delitem__(self, owner: Any) -> None:
        del self._entries[id(owner)]

    def __iter__(self) -> Iterator[Any]:
        for reference, _ in list(self._entries.values()):
            owner = reference()
            if owner is not None:
                yield owner

    def __len__(self) -> int:
        return len(self._entries)
