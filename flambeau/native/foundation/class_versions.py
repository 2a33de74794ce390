"""Version numbers of classes: CPython's mark of whether a class, or one of its bases, has changed.

A change takes the number away, and the next lookup on the class assigns one that was never used
before. Python code cannot read it, so its place in a class's memory is measured here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import attrgetter
from typing import Any

_WORD = ctypes.c_uint


def _measure_offset() -> int | None:
    """Return where a class's memory has its version number; None if this Python has none."""

    class Probe:
        """A class that changes."""

    kind: Any = type(Probe)
    words = (_WORD * (kind.__basicsize__ // ctypes.sizeof(_WORD))).from_address(id(Probe))
    rounds = []
    for value in range(3):
        setattr(Probe, "value", value)  # noqa: B010
        changed = list(words)
        type.__getattribute__(Probe, "value")
        rounds.append((changed, list(words)))
    offsets = [
        i for i in range(len(words))
        if not any(changed[i] for changed, _ in rounds)
        and len({0, *(assigned[i] for _, assigned in rounds)}) == len(rounds) + 1
    ]
    return offsets[0] * ctypes.sizeof(_WORD) if len(offsets) == 1 else None


_OFFSET_BYTES = _measure_offset()
_read_word: Callable[[Any], int] = attrgetter("value")


class ClassVersions:
    """The version numbers of some classes, which the caller keeps alive."""

    def __init__(self) -> None:
        self.classes: list[type] = []
        self.words: list[Any] = []

    def add(self, kind: type) -> None:
        """Add a class."""
        self.classes.append(kind)
        if _OFFSET_BYTES is not None:
            self.words.append(_WORD.from_address(id(kind) + _OFFSET_BYTES))

    def read(self) -> list[int]:
        """Return the numbers; 0 for a class without one."""
        return [*map(_read_word, self.words)]

    def assign(self) -> list[int] | None:
        """Return the numbers after assigning those that are missing; None if some cannot be."""
        for kind in self.classes:
            type.__getattribute__(kind, "__init__")
        numbers = self.read()
        return numbers if numbers and all(numbers) else None
