"""flambeau.doctor: watches a training program and names what PyTorch silently gets wrong.

`flambeau --doctor train.py`, or `with flambeau.doctor():`. Off, it costs nothing: functions are
patched only while a session watches. docs/doctor.md has the checks.
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
    """Whether a session is at work.

    >>> from flambeau import doctor
    >>> doctor.is_watching()
    False
    """
    patches = sys.modules.get(f"{__name__}.patches")
    return patches is not None and patches.session is not None


class _Callable(ModuleType):
    """The module itself is what users call: `with flambeau.doctor():`."""

    def __call__(self, **options: Any) -> Doctor:
        return Doctor(**options)


sys.modules[__name__].__class__ = _Callable
