"""A profile's events in the forms of PyTorch's kineto: a list and a tree.

Events are operators, backward nodes, labels, modules, the program's Python functions, allocations
and frees.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..profiler_util import DeviceType
from .python_calls import PythonCall
from .recorder import Details, MemoryEvent, Recorder, RecordScope, read_details

_numbers = itertools.count(1)  # event ids, unique in a process


class _ExtraFields_TorchOp:
    """Fields of an operator, a node of the backward pass or a label."""

    def __init__(self, name: str, scope: int, shapes: Any, details: Details) -> None:
        self.name, self.scope = name, scope
        self.sequence_number, self.inputs = details.sequence, shapes or []
        self.arguments, self.dtypes = details.arguments, details.dtypes
        self.is_async = False


class _ExtraFields_PyCall:
    """Fields of a call of a Python function."""

    def __init__(self, call: PythonCall) -> None:
        self.python_id, self.caller_id = call.number, call.caller
        self.file_name, self.function_name = call.code.co_filename, call.code.co_name
        self.line_number = call.code.co_firstlineno


class _ExtraFields_Allocation:
    """Fields of an allocation or a free."""

    def __init__(self, event: MemoryEvent) -> None:
        self.ptr, self.alloc_size, self.total_allocated = event.address, event.nbytes, event.total


class _ProfilerEvent:
    """An event of the tree; times are nanoseconds since the profile began.

    `stack`: (code, line) of the program's frames around it, innermost first.
    """

    def __init__(
        self, name: str, begin_ns: int, end_ns: int, thread: int, extra_fields: Any,
        stack: tuple[Any, ...] | None = None,
    ) -> None:
        self.name, self.extra_fields, self.start_tid = name, extra_fields, thread
        self.stack = stack or ()
        self.start_time_ns, self.end_time_ns = begin_ns, end_ns
        self.id = self.correlation_id = next(_numbers)
        self.parent: _ProfilerEvent | None = None
        self.children: list[_ProfilerEvent] = []
        self.finished = True

    @property
    def duration_time_ns(self) -> int:
        """Duration in nanoseconds."""
        return self.end_time_ns - self.start_time_ns

    @property
    def typed(self) -> tuple[str, Any]:
        """The event's kind and its fields."""
        return type(self.extra_fields).__name__.removeprefix("_ExtraFields_"), self.extra_fields

    def __repr__(self) -> str:
        return f"<_ProfilerEvent {self.name}>"


class _KinetoEvent:
    """An event of the list."""

    def __init__(self, event: _ProfilerEvent) -> None:
        self._event = event

    @property
    def _operator(self) -> Any:
        fields = self._event.extra_fields
        return fields if isinstance(fields, _ExtraFields_TorchOp) else None

    def name(self) -> str:
        """Return the event's name."""
        return self._event.name

    def start_ns(self) -> int:
        """Return the start, in nanoseconds since the profile began."""
        return self._event.start_time_ns

    def end_ns(self) -> int:
        """Return the end, in nanoseconds since the profile began."""
        return self._event.end_time_ns

    def duration_ns(self) -> int:
        """Return the duration in nanoseconds."""
        return self._event.duration_time_ns

    def start_thread_id(self) -> int:
        """Return the id of the thread it ran in."""
        return self._event.start_tid

    end_thread_id = device_resource_id = start_thread_id

    def shapes(self) -> Any:
        """Return the shapes of an operator's arguments."""
        return [] if self._operator is None else self._operator.inputs

    def stack(self) -> list[str]:
        """Return the calling lines of the program, innermost first."""
        return [f"{code.co_filename}({line}): {code.co_name}" for code, line in self._event.stack]

    def sequence_nr(self) -> int:
        """Return the sequence number of its backward node, or -1."""
        return -1 if self._operator is None else int(self._operator.sequence_number)

    def scope(self) -> int:
        """Return 0 for operators, 1 for nodes of the backward pass, 7 for labels."""
        return 0 if self._operator is None else int(self._operator.scope)

    def nbytes(self) -> int:
        """Return the bytes allocated, negative for a free."""
        return int(getattr(self._event.extra_fields, "alloc_size", 0))

    def correlation_id(self) -> int:
        """Return the event's id, unique in this process."""
        return self._event.correlation_id

    def linked_correlation_id(self) -> int:
        """Return 0: no event waits for another device."""
        return 0

    def device_type(self) -> DeviceType:
        """Return DeviceType.CPU."""
        return DeviceType.CPU

    def device_index(self) -> int:
        """Return -1: the CPU has no index."""
        return -1

    def is_async(self) -> bool:
        """Return False."""
        return False

    def fwd_thread_id(self) -> int:
        """Return 0: backward passes run in the calling thread."""
        return 0

    def is_python_function(self) -> bool:
        """Return whether it is a call of a Python function."""
        return isinstance(self._event.extra_fields, _ExtraFields_PyCall)

    def is_user_annotation(self) -> bool:
        """Return whether it is a label."""
        return self.scope() == RecordScope.USER_SCOPE


def _nest(events: list[_ProfilerEvent]) -> list[_ProfilerEvent]:
    """Set the parent and children of each event by nesting in time; return the roots."""
    roots = []
    by_thread: dict[int, list[_ProfilerEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.start_time_ns, -e.end_time_ns)):
        around = by_thread[event.start_tid]
        while around and around[-1].end_time_ns < event.end_time_ns:
            around.pop()
        if around:
            event.parent = around[-1]
            around[-1].children.append(event)
        else:
            roots.append(event)
        if event.duration_time_ns:
            around.append(event)
    return roots


class _ProfilerResult:
    """The value of `profile.kineto_results`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._list: list[_KinetoEvent] = []
        all_events = list(self._make(recorder))
        self._roots = _nest(all_events)

    def _make(self, recorder: Recorder) -> Iterable[_ProfilerEvent]:
        began = recorder.began_ns
        for recorded in recorder.events:
            name, begin, end, thread, shapes, stack, scope = recorded[:7]
            fields = _ExtraFields_TorchOp(name, scope, shapes, read_details(recorded))
            event = _ProfilerEvent(name, begin - began, end - began, thread, fields, stack)
            self._list.append(_KinetoEvent(event))
            yield event
        for call in recorder.python.calls if recorder.python is not None else ():
            event = _ProfilerEvent(call.name, call.begin_ns - began, call.end_ns - began,
                                   call.thread, _ExtraFields_PyCall(call))
            self._list.append(_KinetoEvent(event))
            yield event
        for change in recorder.memory_events:
            time_ns = change.time_ns - began
            event = _ProfilerEvent(
                "[memory]", time_ns, time_ns, change.thread, _ExtraFields_Allocation(change))
            self._list.append(_KinetoEvent(event))
            yield event

    def events(self) -> list[_KinetoEvent]:
        """Return all events."""
        return self._list

    def experimental_event_tree(self) -> list[_ProfilerEvent]:
        """Return the root events, ordered by start."""
        return self._roots

    def trace_start_ns(self) -> int:
        """Return the start of the profile, as time.time_ns."""
        return self._recorder.wall_ns
