"""The user's frame: the innermost frame outside flambeau and the standard library.

Warnings name its line, and notes on errors inspect it. The stack is walked only when needed.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType
from typing import ClassVar, TypeVar

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_GENERATED = ("<flambeau", "<frozen ", "<__array_function__")
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_INSTALLED = ("site-packages", "dist-packages")  # library folders for installed packages

_internal: dict[CodeType, bool] = {}

E = TypeVar("E", bound=BaseException)


def is_own_file(file: str) -> bool:
    """Whether a file is flambeau's: in the package, or source that it generated."""
    return file.startswith((PACKAGE, *_GENERATED))


def is_installed_file(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any(f"{os.sep}{name}{os.sep}" in file for name in _INSTALLED)


def is_internal_file(file: str) -> bool:
    """Whether a file is flambeau's or the standard library's, not the user's."""
    return is_own_file(file) or (
        file.startswith(_LIBRARY) and not any(name in file for name in _INSTALLED)
    )


def is_internal(code: CodeType) -> bool:
    """Whether code is flambeau's or the standard library's, not the user's."""
    internal = _internal.get(code)
    if internal is None:
        internal = _internal[code] = is_internal_file(code.co_filename)
    return internal


def find_user_frame(depth: int = 1) -> FrameType | None:
    """Return the user's innermost frame, starting `depth` frames above; None if there is none."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        internal = _internal.get(code)
        if internal is False or (internal is None and not is_internal(code)):
            return frame
        frame = frame.f_back
    return None


class WarningCount:
    """The library's warnings so far, shown or not; compiled steps compare it around operators."""

    value = 0


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` that names the user's line, from any depth in the library."""
    WarningCount.value += 1
    frame = find_user_frame(2) or sys._getframe(1)
    names = frame.f_globals
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno,
        module=names.get("__name__", "<unknown>"),
        registry=names.setdefault("__warningregistry__", {}),
    )


class OneTime:
    """Warnings that a process gives once, by their text or another key; `always` repeats them."""

    told: ClassVar[set[str]] = set()
    always = False


def warn_once(message: str, key: str | None = None) -> None:
    """`warn`, once in a process or, after `set_warn_always(True)`, at every call."""
    key = key or message
    if OneTime.always or key not in OneTime.told:
        OneTime.told.add(key)
        warn(message)


def add_notes(error: E, *notes: str | None) -> E:
    """Return the error with notes added below its message (PEP 678); None is skipped."""
    for note in notes:
        if note is not None:
            error.add_note(note)
    return error
