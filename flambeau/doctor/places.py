"""Source positions in the user's program.

A spot is a code object and a bytecode offset: two references, recorded in a microsecond. The line
is computed only when a finding needs it.
"""

from __future__ import annotations

import functools
from types import CodeType, FrameType
from typing import Any

from ..native.foundation.user_frames import find_user_frame, is_internal
from .finding import Place

Spot = tuple[CodeType, int]


def find_spot(depth: int = 2) -> Spot | None:
    """Return the innermost running spot in user code."""
    frame = find_user_frame(depth)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def list_callers(limit: int = 2) -> tuple[Spot, ...]:
    """Return up to `limit` running spots in user code, innermost first."""
    spots: list[Spot] = []
    frame = find_user_frame(2)
    while frame is not None and len(spots) < limit:
        if not is_internal(frame.f_code):
            spots.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(spots)


def find_constructor(instance: Any) -> Spot | None:
    """Return where the user constructs `instance`, outside its running `__init__` methods."""
    frame = find_user_frame(2)
    while frame is not None:
        code = frame.f_code
        is_constructor = code.co_name == "__init__" and code.co_argcount > 0 \
            and frame.f_locals.get(code.co_varnames[0]) is instance
        if not is_constructor and not is_internal(code):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def place_of(spot: Spot | None) -> Place | None:
    """Return the source line of a spot."""
    return None if spot is None else _place(*spot)


@functools.lru_cache(maxsize=512)
def _place(code: CodeType, offset: int) -> Place:
    line = code.co_firstlineno
    for number, (start, *_rest) in enumerate(code.co_positions()):
        if number * 2 == offset:
            line = start or line
            break
    return Place(code.co_filename, line, code.co_qualname)


def find_variable_name(target: Any, frame: FrameType | None) -> str | None:
    """Return the user's name for an object: a variable, or an attribute of `self`, in a frame or
    its callers."""
    while frame is not None:
        if not is_internal(frame.f_code):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in list(scope.items()):
                    if value is target and not name.startswith("_"):
                        return name
            owner = frame.f_locals.get("self")
            for name, value in list(getattr(owner, "__dict__", {}).items()):
                if value is target:
                    return f"self.{name}"
        frame = frame.f_back
    return None
