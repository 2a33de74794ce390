"""Calls of the program's Python functions while a profile with stacks is on.

`sys.setprofile` says when they begin and end, in the thread that began the profile. It is off
within operators, whose own Python is none of the program's; a profiler that is on already stays.
"""

from __future__ import annotations

import sys
import threading
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

_PACKAGE = __name__.partition(".")[0]


class PythonCall(NamedTuple):
    """A call of a function, times of perf_counter_ns; `caller` is the number of the call around
    it, 0 for none."""

    number: int
    caller: int
    code: CodeType
    begin_ns: int
    end_ns: int
    thread: int

    @property
    def name(self) -> str:
        """As kineto has it: file, line and function."""
        return f"{self.code.co_filename}({self.code.co_firstlineno}): {self.code.co_name}"


def _is_program(frame: FrameType) -> bool:
    return not frame.f_globals.get("__name__", "").startswith(_PACKAGE)


class PythonCalls:
    """What `sys.setprofile` tells."""

    def __init__(self) -> None:
        self.calls: list[PythonCall] = []
        self._open: list[tuple[int, FrameType, int]] = []
        self._count, self._thread = 0, 0

    def start(self, frame: FrameType | None) -> None:
        """Listen from now on; functions that are running already count from here."""
        if sys.getprofile() is not None:
            return
        self._thread, running = threading.get_ident(), []
        while frame is not None:
            if _is_program(frame):
                running.append(frame)
            frame = frame.f_back
        for outer in reversed(running):
            self._begin(outer)
        sys.setprofile(self._listen)

    def _begin(self, frame: FrameType) -> None:
        self._count += 1
        self._open.append((self._count, frame, perf_counter_ns()))

    def _end(self) -> None:
        number, frame, begin_ns = self._open.pop()
        caller = self._open[-1][0] if self._open else 0
        self.calls.append(PythonCall(
            number, caller, frame.f_code, begin_ns, perf_counter_ns(), self._thread))

    def _listen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            if _is_program(frame):
                self._begin(frame)
        elif event == "return" and self._open and self._open[-1][1] is frame:
            self._end()

    def stop(self) -> None:
        """Listen no more; functions that are still running count to here."""
        if sys.getprofile() == self._listen:
            sys.setprofile(None)
        while self._open:
            self._end()

    def pause(self) -> bool:
        """Stop listening in this thread for a while; whether it did."""
        if sys.getprofile() != self._listen:
            return False
        sys.setprofile(None)
        return True

    def resume(self) -> None:
        """Listen again."""
        sys.setprofile(self._listen)
