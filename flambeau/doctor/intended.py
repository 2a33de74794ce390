"""`doctor.intended`: marks code that looks like a mistake but is intended."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, TypeVar

from ..native.foundation.user_frames import find_user_frame
from .finding import Place
from .places import place_of
from .source import find_statements

F = TypeVar("F", bound=Callable[..., Any])

_open: list[frozenset[str]] = []  # ids of active contexts
_lines: list[tuple[str, int, int, frozenset[str]]] = []  # marked code: file, first and last line


def is_intended(id: str, places: Iterable[Place]) -> bool:
    """Return whether a finding is marked: a context with its id is active, or one of its lines is
    in marked code."""
    if any(id in ids for ids in _open):
        return True
    return any(
        id in ids and place.file == file and first <= place.line <= last
        for place in places
        for file, first, last, ids in _lines
    )


def _mark(file: str, first: int, last: int, ids: frozenset[str]) -> None:
    entry = file, first, last, ids
    if entry not in _lines:
        _lines.append(entry)


def _find_last_line(code: CodeType) -> int:
    return max([line for _, _, line in code.co_lines() if line], default=code.co_firstlineno)


class intended:
    """Context and decorator that silences the given checks for intended code.

    >>> from flambeau import doctor
    >>> with doctor.intended("eval-forgotten"):
    ...     pass
    """

    def __init__(self, *ids: str) -> None:
        from .rules import all_rules

        unknown = set(ids) - set(all_rules())
        if unknown or not ids:
            raise ValueError(f"no such check: {', '.join(sorted(unknown)) or '(none given)'}")
        self.ids = frozenset(ids)

    def __enter__(self) -> intended:
        frame = find_user_frame(2)
        if frame is not None:
            place = place_of((frame.f_code, frame.f_lasti))
            assert place is not None
            inner = [s for s in find_statements(place.file, place.line) if hasattr(s, "items")]
            last = (inner[-1].end_lineno or place.line) if inner else place.line
            _mark(place.file, place.line, last, self.ids)
        _open.append(self.ids)
        return self

    def __exit__(self, *exception: object) -> None:
        _open.remove(self.ids)

    def __call__(self, function: F) -> F:
        code = getattr(function, "__code__", None)
        if code is None:  # a class: mark its methods
            for value in vars(function).values():
                if hasattr(value, "__code__"):
                    self(value)
            return function
        _mark(code.co_filename, code.co_firstlineno, _find_last_line(code), self.ids)

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            _open.append(self.ids)
            try:
                return function(*args, **kwargs)
            finally:
                _open.remove(self.ids)

        return marked  # type: ignore[return-value]
