"""Lines of the user's program: which frame is the user's, and where in it a call stands.

A spot is a code object and an offset in its bytecode: two references, noted in a microsecond. The
line is worked out only when a finding needs it.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Any

from .finding import Place

Spot = tuple[CodeType, int]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_SITE = tuple({sysconfig.get_paths()[name] + os.sep for name in ("purelib", "platlib")})
_internal: dict[CodeType, bool] = {}


def is_internal(code: CodeType) -> bool:
    """Whether code is flambeau's own or the standard library's, not the user's."""
    found = _internal.get(code)
    if found is None:
        file = code.co_filename
        found = file.startswith((_PACKAGE, "<flambeau", "<frozen", "<__array_function__")) or (
            file.startswith(_LIBRARY) and not file.startswith(_SITE)
            and "site-packages" not in file
        )  # fmt: skip
        _internal[code] = found
    return found


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the user's, from `depth` frames above the caller outwards."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        internal = _internal.get(code)
        if internal is False or (internal is None and not is_internal(code)):
            return frame
        frame = frame.f_back
    return None


def here(depth: int = 2) -> Spot | None:
    """The innermost spot of the user's that is running."""
    frame = user_frame(depth)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def constructor_spot(instance: Any) -> Spot | None:
    """Where the user makes `instance`: outside of the `__init__` methods that are running on it."""
    frame = user_frame(2)
    while frame is not None:
        code = frame.f_code
        own = code.co_name == "__init__" and code.co_argcount > 0 \
            and frame.f_locals.get(code.co_varnames[0]) is instance  # fmt: skip
        if not own and not is_internal(code):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def place_of(spot: Spot | None) -> Place | None:
    """The line of a spot."""
    return None if spot is None else _place(*spot)


@functools.lru_cache(maxsize=512)
def _place(code: CodeType, offset: int) -> Place:
    line = code.co_firstlineno
    for number, (start, *_rest) in enumerate(code.co_positions()):
        if number * 2 == offset:
            line = start or line
            break
    return Place(code.co_filename, line, code.co_qualname)


def variable_name(thing: Any, frame: FrameType | None) -> str | None:
    """What the user calls an object: a variable in the frames that are running, or an attribute
    of `self` there."""
    while frame is not None:
        if not is_internal(frame.f_code):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in list(scope.items()):
                    if value is thing and not name.startswith("_"):
                        return name
            owner = frame.f_locals.get("self")
            for name, value in list(getattr(owner, "__dict__", {}).items()):
                if value is thing:
                    return f"self.{name}"
        frame = frame.f_back
    return None
