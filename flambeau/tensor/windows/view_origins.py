"""Where views were made that autograd has no history of: recorded writes to them raise.

The `_stamp` of such a view is a number: four times its base's version when it was made, plus its
origin. Other views have their base's node there.
"""

from __future__ import annotations

from typing import Any

# IN_SEVERAL: one of several outputs, as of unbind; IN_FUNCTION: made by a custom Function.
NO_GRAD, IN_INFERENCE, IN_SEVERAL, IN_FUNCTION = range(4)


def is_unrecorded(stamp: Any) -> bool:
    """Return whether a view's stamp says that it was made without history."""
    return stamp.__class__ is int


def read_origin(stamp: Any) -> int:
    """Return how a view was made; NO_GRAD for a stamp that does not tell."""
    return stamp & 3 if stamp.__class__ is int else NO_GRAD


def is_current(stamp: int, version: int) -> bool:
    """Return whether a base of that version is what the view was made of."""
    return stamp >> 2 == version
