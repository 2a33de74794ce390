"""Transparent frames: functions of the library that `stacklevel` does not count.

`warnings` and `logging` skip the frames of Python's import system, which they know by the name of
the file. A step that warns its caller (`stacklevel` of 2) is called through functions of the
compiler.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# Not of the form <...>, so that tracebacks ask the module's loader for the lines.
_FOLDER = "<flambeau>/importlib/_bootstrap/"


def skip_in_stacks(function: F) -> F:
    """Decorator: `stacklevel` of warnings and logging does not count the function's frames."""
    code = cast(Any, function).__code__
    name = _FOLDER + os.path.basename(code.co_filename)
    cast(Any, function).__code__ = code.replace(co_filename=name)
    return function


def is_skipped(code: CodeType) -> bool:
    """Whether a function is decorated with `skip_in_stacks`."""
    return code.co_filename.startswith(_FOLDER)
