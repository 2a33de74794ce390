"""Counts changes of ambient settings, the process state that compiled programs assume fixed.

The owner of a setting that operators read implicitly (default dtype and device, anomaly mode,
saved-tensor hooks) calls `note_change` when it changes, so a guard is a single comparison.
"""

from __future__ import annotations


class _Ambient:
    __slots__ = ("changes", "observers")

    changes: int
    observers: int  # active modes, in any thread, that need to see each operator


AMBIENT = _Ambient()
AMBIENT.changes = AMBIENT.observers = 0


def note_change(observers: int = 0) -> None:
    """Tell guards that an ambient setting may have changed.

    `observers`: the number of operator-watching modes entered (negative if left).
    """
    AMBIENT.changes += 1
    AMBIENT.observers += observers
