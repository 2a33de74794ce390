"""Find the innermost frame of a printed traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ParsedStackTrace", "parse_stack_trace"]

_FRAME = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


@dataclass(frozen=True)
class ParsedStackTrace:
    """One frame of a traceback: file, line number, function name and source line."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        """Return the frame as one line of text."""
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def parse_stack_trace(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> ParsedStackTrace | None:
    """Return the innermost frame accepted by `filter_fn(file, function, line)`, or None."""
    if stack_trace is None:
        return None
    lines = stack_trace.strip().split("\n")
    for i in range(len(lines) - 2, -1, -1):
        match = _FRAME.match(lines[i].strip())
        if match is None:
            continue
        place = ParsedStackTrace(match[1], match[2], match[3], lines[i + 1].strip())
        if filter_fn is None or filter_fn(place.file, place.name, place.code):
            return place
    return None
