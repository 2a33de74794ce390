"""Records calls of the program's Python functions while a profile with stacks is on.

Uses `sys.setprofile` in each thread that ran when the profile began, except the library's own
threads. It is paused inside operators, whose Python is not the program's. If another profiler is
active, it stays and no calls are recorded.
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
    """A function call, with times of perf_counter_ns; `caller` is the number of the enclosing call,
    or 0. `code` is a Python function's; functions without one, which the interpreter or the library
    implements, are a string."""

    number: int
    caller: int
    code: CodeType | str
    begin_ns: int
    end_ns: int
    thread: int

    @property
    def name(self) -> str:
        """File, line and function, as kineto formats them, or the function without code."""
        if isinstance(self.code, str):
            return self.code
        return f"{self.code.co_filename}({self.code.co_firstlineno}): {self.code.co_name}"


def _is_program(frame: FrameType) -> bool:
    if frame.f_code.co_filename.startswith(f"<{_PACKAGE} "):
        return False  # generated
    return not frame.f_globals.get("__name__", "").startswith((_PACKAGE, "namedtuple_"))


def _stack(frame: FrameType | None) -> list[FrameType]:
    """Return the frames from the outermost to this one."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _is_own_thread(stack: list[FrameType]) -> bool:
    """Return whether `threading` started the thread for one of the library's functions."""
    if stack[0].f_globals.get("__name__") != threading.__name__:
        return False
    outer = [f for f in stack if f.f_globals.get("__name__") != threading.__name__]
    return bool(outer) and not _is_program(outer[0])


@dataclass
class _Thread:
    """A thread's running calls: number, frame, start time, and code; a function without code runs
    in its caller's frame."""

    number: int
    open: list[tuple[int, FrameType | None, int, CodeType | str]] = field(default_factory=list)


class PythonCalls:
    """Records Python calls through `sys.setprofile`."""

    def __init__(self) -> None:
        self.calls: list[PythonCall] = []
        self._threads: dict[int, _Thread] = {}
        self._count = 0
        self._is_on = False
        self._hook = self._listen  # a single object, to compare with `sys.getprofile()`

    def start(self, frame: FrameType | None) -> None:
        """Start recording; running functions count as starting now.

        `frame`: the innermost frame of the calling thread to record.
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
                    self._begin(thread, running, running.f_code)
        self._is_on = True
        set_in_all_threads(self._hook)

    def _begin(self, thread: _Thread, frame: FrameType | None, code: CodeType | str) -> None:
        self._count += 1
        thread.open.append((self._count, frame, perf_counter_ns(), code))

    def _end(self, thread: _Thread) -> None:
        number, _, begin_ns, code = thread.open.pop()
        caller = thread.open[-1][0] if thread.open else 0
        self.calls.append(PythonCall(
            number, caller, code, begin_ns, perf_counter_ns(), thread.number))

    def _listen(self, frame: FrameType, event: str, argument: Any) -> None:
        thread = self._threads.get(threading.get_ident())
        if thread is None or not self._is_on:
            sys.setprofile(None)
        elif event == "call":
            if _is_program(frame):
                self._begin(thread, frame, frame.f_code)
        elif event == "c_call":
            if _is_program(frame):
                self._begin(thread, frame, repr(argument))
        elif thread.open and thread.open[-1][1] is frame \
                and (event == "return") is isinstance(thread.open[-1][3], CodeType):
            self._end(thread)

    def stop(self) -> None:
        """Stop recording; running functions count as ending now."""
        self._is_on = False
        if sys.getprofile() is self._hook:
            set_in_all_threads(None)
        for thread in self._threads.values():
            while thread.open:
                self._end(thread)
        self._threads.clear()

    def find_running(self) -> int:
        """Return the number of this thread's innermost running call, or 0."""
        thread = self._threads.get(threading.get_ident())
        return thread.open[-1][0] if thread is not None and thread.open else 0

    def is_recorded(self, ident: int) -> bool:
        """Return whether calls of a thread are recorded: it ran when the profile began."""
        return ident in self._threads

    def pause(self, name: str, depth: int) -> bool:
        """Pause recording in this thread while a function of the library runs. If the program's
        frame at `depth` calls it by its name, it counts as a function without code. Return whether
        the thread was recording."""
        if sys.getprofile() is not self._hook:
            return False
        sys.setprofile(None)
        thread = self._threads.get(threading.get_ident())
        if thread is not None and not name.startswith("__") and _is_program(sys._getframe(depth)):
            self._begin(thread, None, f"<built-in function {name}>")
        return True

    def resume(self) -> None:
        """Resume recording in this thread."""
        thread = self._threads.get(threading.get_ident())
        if thread is not None and thread.open and thread.open[-1][1] is None:
            self._end(thread)
        if self._is_on:
            sys.setprofile(self._hook)
