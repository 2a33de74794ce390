"""How often an ambient setting changed: what a compiled program takes for granted of the process.

Whoever owns a setting that operators read without an argument (default dtype and device, anomaly
mode, saved-tensor hooks) calls `note_change`, so that a guard is one comparison.
"""

from __future__ import annotations


class _Ambient:
    __slots__ = ("changes", "observers")

    changes: int
    observers: int  # modes that are on, in any thread, and want to see each operator


AMBIENT = _Ambient()
AMBIENT.changes = AMBIENT.observers = 0


def note_change(observers: int = 0) -> None:
    """Tell guards that an ambient setting may be another one now.

    `observers` is how many modes that watch operators were entered (negative: left).
    """
    AMBIENT.changes += 1
    AMBIENT.observers += observers
