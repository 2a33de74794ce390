"""flambeau.doctor: watches a training program and reports mistakes that PyTorch lets pass silently.

Run `flambeau --doctor train.py`, or use `with flambeau.doctor():`. It costs nothing when off:
functions are patched only while a session watches. docs/doctor.md lists the checks.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .doctor import Doctor, check
from .explain import explain
from .finding import Finding, Level, Mistake, Place
from .intended import intended

__all__ = [
    "Doctor", "Finding", "Level", "Mistake", "Place", "check", "explain", "intended", "is_watching",
]


def is_watching() -> bool:
    """Return whether a session is watching.

    >>> from flambeau import doctor
    >>> doctor.is_watching()
    False
    """
    patches = sys.modules.get(f"{__name__}.patches")
    return patches is not None and patches.session is not None


class _Callable(ModuleType):
    """Make the module callable, for `with flambeau.doctor():`."""

    def __call__(self, **options: Any) -> Doctor:
        return Doctor(**options)


sys.modules[__name__].__class__ = _Callable
