"""Recorder: what a profile notes while it is on: calls, memory that comes and goes, the program's
Python.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from .python_calls import PythonCalls


class MemoryEvent(NamedTuple):
    """Memory of a result that came (`nbytes` above 0) or went, at `time_ns` of perf_counter_ns."""

    time_ns: int
    thread: int
    nbytes: int
    address: int
    total: int


class Details(NamedTuple):
    """What some events say beside their times.

    `sequence`: of the node that the call recorded, or that ran; -1 where there is none.
    `dtypes`: of the arguments, None for what is no tensor.
    """

    sequence: int = -1
    arguments: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    flops: int = 0
    dtypes: tuple[Any, ...] = ()


class Recorder:
    """The events of a profile, as they are noted while it is on.

    `events`: (name, begin, end, thread, shapes, stack, scope), times of perf_counter_ns, and in
    some a Details behind those.
    """

    def __init__(
        self, shapes: bool, memory: bool, stack: bool, modules: bool, flops: bool = False
    ) -> None:
        self.shapes, self.memory, self.stack, self.modules = shapes, memory, stack, modules
        self.flops = flops
        self.events: list[tuple[Any, ...]] = []
        self.memory_events: list[MemoryEvent] = []
        self.python = PythonCalls() if stack else None
        self.is_legacy = False  # of torch.autograd.profiler_legacy
        self.began_ns = self.ended_ns = 0
        self.wall_ns = 0
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._total_bytes = 0

    def watch(self, array: np.ndarray) -> None:
        """Note that the memory of an array came, and when it goes."""
        key = id(array)
        known = self._alive.get(key)
        if known is not None and known() is array:
            return
        nbytes, address = array.nbytes, array.ctypes.data
        self._note(nbytes, address)

        def gone(reference: Any) -> None:
            if self._alive.get(key) is reference:
                del self._alive[key]
                if Recording.now is self:
                    self._note(-nbytes, address)

        self._alive[key] = weakref.ref(array, gone)

    def _note(self, nbytes: int, address: int) -> None:
        self._total_bytes += nbytes
        self.memory_events.append(MemoryEvent(
            perf_counter_ns(), threading.get_ident(), nbytes, address, self._total_bytes))


class Recording:
    """The profile that is on, and what starts and ends the noting of operators."""

    now: Recorder | None = None
    turn: Callable[[Recorder | None], None]
    lock = threading.RLock()


def user_stack(depth: int) -> tuple[Any, ...]:
    """(code, line) of the frames of the program, from the innermost on."""
    lines = []
    frame = sys._getframe(depth)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("flambeau"):
            lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(lines)
