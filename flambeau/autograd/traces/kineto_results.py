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
from .event_fields import (
    StorageIdentities, _EventType, _ExtraFields_Allocation, _ExtraFields_PyCall,
    _ExtraFields_PyCCall, _ExtraFields_TorchOp, describe_call, describe_subject,
)
from .inner_calls import list_calls
from .recorder import Recorder, RecordScope

_numbers = itertools.count(1)  # event ids, unique in a process


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
    def tag(self) -> _EventType:
        """The event's kind."""
        return self.extra_fields.tag

    @property
    def typed(self) -> tuple[_EventType, Any]:
        """The event's kind and its fields."""
        return self.tag, self.extra_fields

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
        return [] if self._operator is None else self._operator.shapes

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
        return isinstance(self._event.extra_fields, (_ExtraFields_PyCall, _ExtraFields_PyCCall))

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
        self._identities = StorageIdentities()
        all_events = list(self._make(recorder))
        self._roots = _nest(all_events)
        by_start = sorted(all_events, key=lambda e: (e.start_time_ns, -e.end_time_ns))
        self._identities.assign(
            (noted for event in by_start for noted in event.extra_fields.list_identified()),
            recorder.holders)

    def _make(self, recorder: Recorder) -> Iterable[_ProfilerEvent]:
        began = recorder.began_ns
        for _, _, timed in list_calls(recorder):
            fields: Any = _ExtraFields_TorchOp(
                timed.name, timed.scope, timed.shapes, timed.details, self._identities)
            if timed.details.subject is not None:
                fields = describe_subject(timed.details.subject, self._identities)
            event = _ProfilerEvent(timed.name, timed.begin_ns - began, timed.end_ns - began,
                                   timed.thread, fields, timed.stack)
            self._list.append(_KinetoEvent(event))
            yield event
        calls = [] if recorder.python is None else recorder.python.calls
        callers = {call.number: call for call in calls}
        for call in calls:
            event = _ProfilerEvent(call.name, call.begin_ns - began, call.end_ns - began,
                                   call.thread, describe_call(call, callers))
            self._list.append(_KinetoEvent(event))
            yield event
        for change in recorder.memory_events:
            time_ns = change.time_ns - began
            fields = _ExtraFields_Allocation(change, self._identities)
            event = _ProfilerEvent("[memory]", time_ns, time_ns, change.thread, fields)
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
