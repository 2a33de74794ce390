"""The user's frame: the innermost one on the stack that is not flambeau's.

Errors and warnings point at it. Looked for only when there is something to say.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import TypeVar

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_GENERATED = ("<flambeau", "<frozen importlib")

E = TypeVar("E", bound=BaseException)


def is_own(code: CodeType) -> bool:
    """Whether code is flambeau's: a file of the package, or source that it generated."""
    return code.co_filename.startswith((_PACKAGE, *_GENERATED))


def user_frame() -> FrameType | None:
    """The innermost frame of the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code):
        frame = frame.f_back
    return frame


def stack_level() -> int:
    """The `stacklevel` with which `warnings.warn`, called by the caller, names the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_own(frame.f_code):
        level, frame = level + 1, frame.f_back
    return level


def noted(error: E, *notes: str | None) -> E:
    """The error with notes below its message (PEP 678); None is no note."""
    for note in notes:
        if note is not None:
            error.add_note(note)
    return error
