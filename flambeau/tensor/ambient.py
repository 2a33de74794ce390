"""How often an ambient setting changed: what a compiled program takes for granted of the process.

Whoever owns a setting that operators read without an argument (default dtype and device, anomaly
mode, saved-tensor hooks) calls `note_change`, so that a guard is one comparison.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Ambient:
    __slots__ = ("changes", "observers", "patches")

    changes: int
    observers: int  # modes that are on, in any thread, and want to see each operator
    patches: int  # how often somebody put another function into a public namespace


AMBIENT = _Ambient()
AMBIENT.changes = AMBIENT.observers = AMBIENT.patches = 0


def note_change(observers: int = 0) -> None:
    """Tells guards that an ambient setting may be another one now.

    `observers` is how many modes that watch operators were entered (negative: left).
    """
    AMBIENT.changes += 1
    AMBIENT.observers += observers


class _Namespace(ModuleType):
    """A public module whose functions the library itself looks up by name."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not isinstance(value, ModuleType):  # imports set submodules
            AMBIENT.patches += 1
            note_change()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        AMBIENT.patches += 1
        note_change()


def count_patches(name: str) -> None:
    """Counts the functions that programs put into a module from now on."""
    sys.modules[name].__class__ = _Namespace
