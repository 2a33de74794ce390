"""Reports of calls: how an observer turns a call of a patched function into an event."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...native.foundation.user_frames import is_internal
from . import Observer

if TYPE_CHECKING:
    from ..session import Session

_CALLER_DEPTH = 4  # of is_called_by_user: report, observer, stub of the patched function, caller


class Call(NamedTuple):
    """A call of a patched function; `result` is None in reports made before the call."""

    name: str
    args: tuple
    kwargs: dict
    result: Any = None

    def get(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument that may be passed by position or by name."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


Report = Callable[["Session", Call], None]


def report_before(session: Session, report: Report, name: str = "") -> Observer:
    """Return an observer that reports a call, then makes it. Rules' own calls are not reported."""

    def observe(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not session.busy:
            report(session, Call(name, args, kwargs))
        return original(*args, **kwargs)

    return observe


def report_after(session: Session, report: Report, name: str = "") -> Observer:
    """Return an observer that makes a call, then reports it. Rules' own calls are not reported."""

    def observe(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy:
            report(session, Call(name, args, kwargs, result))
        return result

    return observe


def is_called_by_user() -> bool:
    """Return whether the user's code, not the library, makes the call that is being reported."""
    return not is_internal(sys._getframe(_CALLER_DEPTH).f_code)
