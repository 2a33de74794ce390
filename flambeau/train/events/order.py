"""Bands: in which order handlers of the same event run."""

from __future__ import annotations

import enum
from typing import Any

from .suggestions import suggest


class Band(enum.IntEnum):
    """The rank of a handler. `start` and other events run OUTER to METRICS, `end` and `error`
    METRICS to OUTER. So control reads finished metrics, a checkpoint saves what control decided
    and loggers wrote, and timers (OUTER) include all the others.

    >>> Band.METRICS > Band.USER > Band.CONTROL > Band.IO > Band.CHECKPOINT > Band.OUTER
    True
    """

    OUTER = 0
    CHECKPOINT = 1
    IO = 2
    CONTROL = 3
    USER = 4
    METRICS = 5


OUTER, CHECKPOINT, IO, CONTROL, USER, METRICS = Band


def as_band(value: Any) -> Band:
    """Return a Band from a Band, its number or its name."""
    if isinstance(value, str):
        names = [band.name.lower() for band in Band]
        if value.lower() not in names:
            raise ValueError(f"there is no band '{value}'{suggest(value, names)}")
        return Band[value.upper()]
    return Band(value)
