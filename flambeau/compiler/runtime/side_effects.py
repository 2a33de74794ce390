"""Side effects: store a program's values in Python objects after its run, as the step does."""

from __future__ import annotations

import functools
import operator
import types
from collections import deque
from collections.abc import Callable
from itertools import count, islice
from typing import Any

from ..trace.trace import Effect


def make_performer(effects: list[Effect]) -> Callable[[tuple], None]:
    """Return the function that stores a call's values. A single store, as most steps have, takes
    a third of the time of the general way."""
    if len(effects) == 1:
        owner, key = effects[0].place.owner, effects[0].place.key
        if effects[0].is_print:
            return functools.partial(_print, owner)
        if effects[0].place.is_attribute:
            return functools.partial(_set, setattr, owner, key)
        if type(owner) is types.CellType:
            return functools.partial(_set, setattr, owner, "cell_contents")
        if type(owner) is count:
            return functools.partial(_advance, owner)
        if key is not None:
            return functools.partial(_set, operator.setitem, owner, key)
    return functools.partial(perform, effects)


def _set(store: Callable[[Any, Any, Any], None], owner: Any, key: Any, values: tuple) -> None:
    try:
        store(owner, key, values[0])
    except BaseException:  # again, in case an interrupt came first
        store(owner, key, values[0])
        raise


def _print(call: Callable[[Any], None], values: tuple) -> None:
    call(values[0])


def _advance(counter: count[int], values: tuple) -> None:
    """Advance a count. No interrupt comes between `passed` and the call that it counts."""
    passed, steps = 0, values[0]
    try:
        while passed < steps:
            passed += 1
            next(counter)
    except BaseException:
        deque(islice(counter, steps - passed), 0)
        raise


def perform(effects: list[Effect], values: tuple) -> None:
    """Store this call's values where the step stores them, interrupts notwithstanding. What comes
    after a print that raises, or that an interrupt precedes, is not done."""
    stored = [0]
    try:
        _store(effects, values, stored)
    except BaseException:
        if stored[0] and effects[stored[0] - 1].is_print:
            raise
        end = next((i for i, effect in enumerate(effects) if i >= stored[0] and effect.is_print),
                   len(effects))
        _store(effects[:end], values[:end], stored)
        raise


def _store(effects: list[Effect], values: tuple, stored: list[int]) -> None:
    """Store the values from the first one on that is not stored yet. An interrupt comes before the
    count or after the store."""
    for effect, value in zip(effects[stored[0]:], values[stored[0]:], strict=True):
        owner, key = effect.place.owner, effect.place.key
        is_cell = type(owner) is types.CellType
        passed = islice(owner, value) if type(owner) is count else None
        stored[0] += 1
        if effect.place.is_attribute:
            setattr(owner, key, value)
        elif effect.is_print:
            owner(value)
        elif is_cell:
            owner.cell_contents = value
        elif passed is not None:
            deque(passed, 0)
        elif key is None:
            owner.extend(value)
        else:
            owner[key] = value
