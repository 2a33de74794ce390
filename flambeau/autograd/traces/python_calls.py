"""Calls of the program's Python functions while a profile with stacks is on.

`sys.setprofile` says when they begin and end, in each thread that ran when the profile began, but
the library's own. It is off within operators, whose own Python is none of the program's; a
profiler that is on already stays.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .thread_hooks import set_in_all_threads

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


def _stack(frame: FrameType | None) -> list[FrameType]:
    """The frames from the outermost to this one."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _is_own_thread(stack: list[FrameType]) -> bool:
    """Whether `threading` started the thread for a function of the library's."""
    if stack[0].f_globals.get("__name__") != threading.__name__:
        return False
    outer = [f for f in stack if f.f_globals.get("__name__") != threading.__name__]
    return bool(outer) and not _is_program(outer[0])


@dataclass
class _Thread:
    """Calls of a thread that are running: number, frame and beginning."""

    number: int
    open: list[tuple[int, FrameType, int]] = field(default_factory=list)


class PythonCalls:
    """What `sys.setprofile` tells."""

    def __init__(self) -> None:
        self.calls: list[PythonCall] = []
        self._threads: dict[int, _Thread] = {}
        self._count = 0
        self._is_on = False
        self._hook = self._listen  # one object, which `sys.getprofile` gives back

    def start(self, frame: FrameType | None) -> None:
        """Listen from now on; functions that are running already count from here.

        `frame`: the innermost function of the calling thread that counts.
        """
        if sys.getprofile() is not None:
            return
        innermost: dict[int, Any] = dict(sys._current_frames())
        innermost[threading.get_ident()] = frame
        for ident, last in innermost.items():
            stack = _stack(last)
            if stack and not _is_own_thread(stack):
                thread = self._threads[ident] = _Thread(ident)
                for running in filter(_is_program, stack):
                    self._begin(thread, running)
        self._is_on = True
        set_in_all_threads(self._hook)

    def _begin(self, thread: _Thread, frame: FrameType) -> None:
        self._count += 1
        thread.open.append((self._count, frame, perf_counter_ns()))

    def _end(self, thread: _Thread) -> None:
        number, frame, begin_ns = thread.open.pop()
        caller = thread.open[-1][0] if thread.open else 0
        self.calls.append(PythonCall(
            number, caller, frame.f_code, begin_ns, perf_counter_ns(), thread.number))

    def _listen(self, frame: FrameType, event: str, argument: Any) -> None:
        thread = self._threads.get(threading.get_ident())
        if thread is None or not self._is_on:
            sys.setprofile(None)
        elif event == "call":
            if _is_program(frame):
                self._begin(thread, frame)
        elif event == "return" and thread.open and thread.open[-1][1] is frame:
            self._end(thread)

    def stop(self) -> None:
        """Listen no more; functions that are still running count to here."""
        self._is_on = False
        if sys.getprofile() is self._hook:
            set_in_all_threads(None)
        for thread in self._threads.values():
            while thread.open:
                self._end(thread)
        self._threads.clear()

    def pause(self) -> bool:
        """Stop listening in this thread for a while; whether it did."""
        if sys.getprofile() is not self._hook:
            return False
        sys.setprofile(None)
        return True

    def resume(self) -> None:
        """Listen again."""
        if self._is_on:
            sys.setprofile(self._hook)
