"""Recorder: collects a profile's events while it is on: calls, allocations and frees, and the
program's Python functions.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from enum import IntEnum
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

import numpy as np

from .python_calls import PythonCalls
from .tensor_records import ObjectNumbers


_ALIVE: dict[int, weakref.ref[Any]] = {}  # arrays that a profile saw allocated, by id


class RecordScope(IntEnum):
    """What an event times, with PyTorch's numbers."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    USER_SCOPE = 7


class MemoryEvent(NamedTuple):
    """An allocation (`nbytes` > 0) or free of a result at `time_ns` of perf_counter_ns.

    `storage`: the number of the array, None if it was allocated during another profile.
    """

    time_ns: int
    thread: int
    nbytes: int
    address: int
    total: int
    storage: int | None


class Details(NamedTuple):
    """Extra fields of some events.

    `sequence`: number of the node that the call recorded, or that ran; -1 if none.
    `dtypes`: dtypes of the arguments, None for non-tensors. `described`: what an execution trace
    wants to know of arguments and results. `values`: records of the arguments' tensors, and plain
    numbers. `saved`: records of the tensors that a node of the backward pass has saved. `caller`:
    the number of the Python call around a module's or an optimizer's call, 0 if unknown.
    `subject`: the ModuleRecord or OptimizerRecord of a module's or an optimizer's call.
    """

    sequence: int = -1
    arguments: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()
    flops: int = 0
    dtypes: tuple[Any, ...] = ()
    described: Any = None
    values: tuple[Any, ...] = ()
    subject: Any = None
    saved: tuple[Any, ...] = ()
    caller: int = 0  # the last field


class Event(NamedTuple):
    """A timed call, with times of perf_counter_ns.

    `inner`: the calls within a composite, as a declaration (inner_calls.py) or as their events.
    """

    name: str
    begin_ns: int
    end_ns: int
    thread: int
    shapes: list[Any] | None = None
    stack: tuple[Any, ...] | None = None
    scope: int = RecordScope.FUNCTION.value
    details: Details = Details()
    inner: str | tuple[Event, ...] = ()


def read_event(fields: tuple[Any, ...]) -> Event:
    """Return a recorder's event, whose details may be only their `sequence`."""
    event = Event(*fields)
    details: Any = event.details
    return event if details.__class__ is Details else event._replace(details=Details(details))


class Recorder:
    """The events of a profile, collected while it is on.

    `events`: the fields of Events, for `read_event`. They are plain tuples because the garbage
    collector stops tracking those, and because an Event takes 0.2 us to create.
    `own_names`: names of events of operators that PyTorch lacks, and whose they are part of.
    """

    def __init__(
        self, shapes: bool, memory: bool, stack: bool, modules: bool, flops: bool = False
    ) -> None:
        self.shapes, self.memory, self.stack, self.modules = shapes, memory, stack, modules
        self.flops = flops
        self.events: list[tuple[Any, ...]] = []
        self.memory_events: list[MemoryEvent] = []
        self.python = PythonCalls() if stack else None
        self.numbers = ObjectNumbers()
        self.is_legacy = False  # started by torch.autograd.profiler_legacy
        self.observer = Recording.observer
        self.thread = threading.get_ident()
        self.began_ns = self.ended_ns = 0
        self.wall_ns = 0
        self.own_names: dict[str, str] = {}
        self.open_labels: dict[int, tuple[str, int, int]] = {}  # name, begin, thread
        self.holders: set[tuple[int, int]] = set()  # numbers of results and of their storages

    def watch(self, array: np.ndarray) -> None:
        """Record the allocation of an array now, and its free when it dies."""
        key, owner = id(array), weakref.ref(self)
        known = _ALIVE.get(key)
        if not array.nbytes or known is not None and known() is array:
            return
        nbytes, (storage, address) = array.nbytes, self.numbers.number_memory(array)
        self._note(nbytes, address, storage)

        def forget(reference: Any) -> None:
            if _ALIVE.get(key) is reference:
                del _ALIVE[key]
                current = Recording.now
                if current is not None and current.memory:
                    current._note(-nbytes, address, storage if current is owner() else None)

        _ALIVE[key] = weakref.ref(array, forget)

    def _note(self, nbytes: int, address: int, storage: int | None) -> None:
        Recording.total_bytes += nbytes
        self.memory_events.append(MemoryEvent(
            perf_counter_ns(), threading.get_ident(), nbytes, address, Recording.total_bytes,
            storage))


class CallObserver(Protocol):
    """What an execution trace does while it runs."""

    def attach(self, recorder: Recorder) -> None:
        """Take the calls that a recorder collects from now on."""

    def describe(self, values: Iterable[Any], is_operator: bool = False) -> Any:
        """Return the trace's description of arguments or results."""


class Recording:
    """Who records calls: the active profile, else an execution trace.

    `now`: the profile's recorder; `own`: that of an execution trace, for the time without a
    profile; `target`: the one of both that operators report to. `turn` starts and stops this.
    `total_bytes`: of results that profiles saw allocated, less those that they saw freed.
    """

    now: Recorder | None = None
    own: Recorder | None = None
    target: Recorder | None = None
    observer: CallObserver | None = None
    total_bytes = 0
    turn: Callable[[Recorder | None], None]
    lock = threading.RLock()

    @classmethod
    def redirect(cls) -> None:
        """Let operators report to the profile, or else to the execution trace."""
        cls.target = cls.own if cls.now is None else cls.now
        cls.turn(cls.target)

    @classmethod
    def observe(cls, observer: CallObserver | None) -> None:
        """Start an execution trace, or end it with None."""
        with cls.lock:
            cls.observer, cls.own = observer, None
            if observer is not None:
                cls.own = Recorder(False, False, False, False)
                cls.own.began_ns = perf_counter_ns()
                observer.attach(cls.own)
            if cls.now is not None:
                cls.now.observer = observer
                if observer is not None:
                    observer.attach(cls.now)
            cls.redirect()


def is_recording_here() -> bool:
    """Return whether this thread started the profile that is on.

    >>> with torch.profiler.profile():
    ...     torch.autograd._profiler_enabled()
    True
    """
    return Recording.now is not None and Recording.now.thread == threading.get_ident()


def collect_user_stack(depth: int) -> tuple[Any, ...]:
    """Return (code, line) of the program's frames, innermost first."""
    lines = []
    frame = sys._getframe(depth)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("flambeau"):
            lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(lines)
