"""Side effects: store a program's values in Python objects after its run, as the step does."""

from __future__ import annotations

import types
from collections import deque
from itertools import count, islice

from ..trace.trace import Effect


def perform(effects: list[Effect], values: tuple) -> None:
    """Store this call's values where the step stores them, interrupts notwithstanding."""
    stored = [0]
    try:
        _store(effects, values, stored)
    except BaseException:
        _store(effects, values, stored)
        raise


def _store(effects: list[Effect], values: tuple, stored: list[int]) -> None:
    """Store the values from the first one on that is not stored yet. An interrupt comes before the
    count or after the store."""
    for effect, value in zip(effects[stored[0]:], values[stored[0]:], strict=True):
        owner, key = effect.place.owner, effect.place.key
        is_cell = isinstance(owner, types.CellType)
        passed = islice(owner, value) if owner.__class__ is count else None
        stored[0] += 1
        if effect.place.is_attribute:
            setattr(owner, key, value)
        elif is_cell:
            owner.cell_contents = value
        elif passed is not None:
            deque(passed, 0)
        elif key is None:
            owner.extend(value)
        else:
            owner[key] = value
