"""Side effects: store a program's values in Python objects after its run, as the step does."""

from __future__ import annotations

import types

from ..trace.trace import Effect


def perform(effects: list[Effect], values: tuple) -> None:
    """Store this call's values where the step stores them."""
    for effect, value in zip(effects, values, strict=True):
        owner, key = effect.place.owner, effect.place.key
        if effect.place.is_attribute:
            setattr(owner, key, value)
        elif isinstance(owner, types.CellType):
            owner.cell_contents = value
        elif key is None:
            owner.extend(value)
        else:
            owner[key] = value
