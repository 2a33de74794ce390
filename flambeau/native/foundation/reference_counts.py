"""Calibrate reference counts: what `sys.getrefcount` adds to an object's known references.

Up to CPython 3.13 a call's argument counts as a reference. From 3.14 on it is borrowed, and does
not count, if the compiler sees that the caller's variable outlives the call. Code that compares a
count must add this version's extra references, which are measured here.
"""

from __future__ import annotations

import sys


def _count_parameter(x: object) -> int:
    return sys.getrefcount(x)


def _count_variable() -> tuple[int, int]:
    """Return the counts of an object in one variable: read directly, and through a parameter."""
    x = object()
    return sys.getrefcount(x), _count_parameter(x)


_direct, _passed = _count_variable()
# Extra references of an object in a variable: as the argument of `sys.getrefcount`, and as the
# parameter of each Python function that passes it on.
ARGUMENT_REFERENCES = _direct - 1
PARAMETER_REFERENCES = _passed - _direct
