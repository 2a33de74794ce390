"""Trace errors: which line of the user's program caused one, and how to fix it."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

from ._compatibility import compatibility

__all__ = ["TraceError", "explain", "is_own_file", "user_frame"]

_PACKAGE = __name__.partition(".")[0]
_FOLDER = str(Path(__file__).resolve().parent.parent)


@compatibility(is_backward_compatible=True)
class TraceError(ValueError):
    """The program asked a proxy for something that only a concrete value can answer."""


def user_frame() -> FrameType | None:
    """Return the innermost frame of user code, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE or \
        frame.f_code.co_filename == "<flambeau capture>"


def is_own_file(path: str) -> bool:
    """Return whether a file belongs to flambeau."""
    return path.startswith(_FOLDER) or path == "<flambeau capture>"


def explain(error: Exception, fix: str) -> None:
    """Add notes to an error: the user's source line and the fix."""
    frame = user_frame()
    if frame is not None:
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        error.add_note(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}: {line}")
    error.add_note(fix)
