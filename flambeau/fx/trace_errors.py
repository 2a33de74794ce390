"""Trace errors: which line of the user's program caused one, and how to fix it."""

from __future__ import annotations

import linecache

from ..native.foundation.user_frames import find_user_frame
from ._compatibility import compatibility

__all__ = ["TraceError", "explain"]


@compatibility(is_backward_compatible=True)
class TraceError(ValueError):
    """The program asked a proxy for something that only a concrete value can answer."""


def explain(error: Exception, fix: str) -> None:
    """Add notes to an error: the user's source line and the fix."""
    frame = find_user_frame()
    if frame is not None:
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        error.add_note(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}: {line}")
    error.add_note(fix)
