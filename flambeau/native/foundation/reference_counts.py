"""Reference counts: what `sys.getrefcount` says of an object that known places hold.

Up to CPython 3.13 an argument of a call counts as a reference of its own. From 3.14 on it is
borrowed from the caller's variable where the compiler sees that this one outlives the call, and
does not count. Whoever compares a count must add what this version counts, which is measured here.
"""

from __future__ import annotations

import sys


def _count_parameter(x: object) -> int:
    return sys.getrefcount(x)


def _count_variable() -> tuple[int, int]:
    """The counts of an object in one variable: where it stands, and where it is handed to."""
    x = object()
    return sys.getrefcount(x), _count_parameter(x)


_direct, _passed = _count_variable()
# What a variable's object counts beyond the variable: as the argument of `sys.getrefcount`, and as
# the parameter of each Python function that it is handed on to.
ARGUMENT_REFERENCES = _direct - 1
PARAMETER_REFERENCES = _passed - _direct
