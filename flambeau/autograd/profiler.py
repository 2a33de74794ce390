"""torch.autograd.profiler: labels for parts of a program, and profiles of what ran.

While a profile is on, a stub on each operator records its start and end
(`ops/interception/operator_timing.py`); otherwise there is no overhead.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns, time_ns
from typing import Any, ClassVar, Self

from ..native.foundation.context_wrappers import note_wrapper
from ..tensor.absent import make_absent_getattr
from .profiler_util import (
    DeviceType as DeviceType,
    EventList, FunctionEvent, FunctionEventAvg, Interval, nest_events,
)
from .traces.chrome_trace import write_chrome_trace
from .traces.inner_calls import list_calls
from .traces.kineto_results import _ProfilerResult
from .traces.recorder import Event, Recorder, collect_user_stack
from .traces.recorder import Recording as Recording
from .traces.tensor_records import OptimizerRecord

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "KinetoStepTracker",
           "profile", "record_function"]

_NAMES = ("emit_itt", "emit_nvtx", "load_nvprof", "parse_nvprof_trace", "EnforceUnique")

__getattr__ = make_absent_getattr(__name__, _NAMES)
_LABEL = 7  # the scope of a user's label
_is_profiler_enabled = False


@dataclass
class ProfilerStats:
    """Time spent starting, stopping and reading a profile."""

    profiling_window_duration_sec: float = 0.0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: float = 0.0
    profiler_enable_call_duration_us: float = 0.0
    profiler_disable_call_duration_us: float = 0.0
    parse_kineto_call_duration_us: float = 0.0
    function_events_build_tree_call_duration_us: float = 0.0


class profile:
    """Records when operators, labels and modules begin and end.

    `record_shapes`: also the shapes of operators' arguments; `profile_memory`: allocations and
    frees of results; `with_stack`: calling lines, and calls of the program's functions;
    `with_modules`: calls of modules; `with_flops`: floating-point operations. Costs about half a
    microsecond per operator, more with these options.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2) + 1
    >>> "aten::add" in [event.key for event in prof.key_averages()]
    True
    """

    is_legacy = False

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False,
        use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None,
    ) -> None:
        self.enabled, self.entered = enabled, False
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_modules, self.with_flops = with_stack, with_modules, with_flops
        self._events: EventList | None = None
        self._results: _ProfilerResult | None = None
        self._recorder: Recorder | None = None
        self._stats = ProfilerStats()

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start()
        return self

    def _start(self) -> None:
        global _is_profiler_enabled
        called_ns = perf_counter_ns()
        recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack,
                            self.with_modules or self.with_stack, self.with_flops)
        recorder.is_legacy = self.is_legacy
        with Recording.lock:
            if Recording.now is not None:
                raise RuntimeError("Profiler is already enabled on this thread")
            prepared_ns = perf_counter_ns()
            if recorder.observer is not None:
                recorder.observer.attach(recorder)
            recorder.began_ns = prepared_ns
            Recording.now = recorder
            Recording.redirect()
            recorder.wall_ns, recorder.began_ns = time_ns(), perf_counter_ns()
            self._recorder = recorder
            _is_profiler_enabled = True
        self._stats.profiler_prepare_call_duration_us = (prepared_ns - called_ns) / 1e3
        self._stats.profiler_enable_call_duration_us = (recorder.began_ns - prepared_ns) / 1e3
        if recorder.python is not None:
            recorder.python.start(sys._getframe(2))

    def __exit__(self, *exception: object) -> None:
        global _is_profiler_enabled
        recorder = self._recorder
        if self.enabled and recorder is not None and Recording.now is recorder:
            if recorder.python is not None:
                recorder.python.stop()
            recorder.ended_ns = perf_counter_ns()
            with Recording.lock:
                Recording.now = None
                Recording.redirect()
                _is_profiler_enabled = False
            stats = self._stats
            stats.profiler_disable_call_duration_us = (perf_counter_ns() - recorder.ended_ns) / 1e3
            stats.profiling_window_duration_sec = (recorder.ended_ns - recorder.began_ns) / 1e9
            stats.number_of_events = len(recorder.events)
        self._events = self._results = None

    # ------------------------------------------------------------------------- results

    def events(self) -> EventList:
        """Return the calls ordered by start. Raise RuntimeError if nothing was profiled."""
        if self._events is None:
            if self._recorder is None:
                raise RuntimeError("Profiler didn't finish running")
            begin_ns = perf_counter_ns()
            self._events = _create_events(self._recorder)
            took_us = (perf_counter_ns() - begin_ns) / 1e3
            self._stats.parse_kineto_call_duration_us = took_us
            self._stats.function_events_build_tree_call_duration_us = took_us
        return self._events

    @property
    def function_events(self) -> EventList | None:
        """`events()`, or None while the profile is on."""
        recorder = self._recorder
        return None if recorder is None or Recording.now is recorder else self.events()

    @property
    def kineto_results(self) -> _ProfilerResult | None:
        """The events in kineto's form, or None before the profile ends."""
        recorder = self._recorder
        if recorder is None or Recording.now is recorder:
            return None
        if self._results is None:
            self._results = _ProfilerResult(recorder)
        return self._results

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the calls summed by name, optionally also by input shapes and stack."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return the calls as a text table."""
        return self.events().table(sort_by, row_limit, **options)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all calls."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Total self time of all calls in microseconds."""
        return self.events().self_cpu_time_total

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the calls for chrome://tracing and Perfetto."""
        events = self.events()
        assert self._recorder is not None
        flags = {"with_stack": int(self.with_stack), "profile_memory": int(self.profile_memory),
                 "record_shapes": int(self.record_shapes)}
        write_chrome_trace(events, path, {**flags, **(metadata or {})},
                           self._recorder.wall_ns / 1e3, self._recorder)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks and their weights for flame graph tools."""
        self.events().export_stacks(path, metric)

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else \
            repr(self.events())

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else \
            str(self.events())


def _create_events(recorder: Recorder) -> EventList:
    threads: dict[int, int] = {}
    result = []
    for number, _, timed in list_calls(recorder):
        if isinstance(timed.details.subject, OptimizerRecord):
            continue  # the same step as the event of its label
        thread = threads.setdefault(timed.thread, len(threads) + 1)
        result.append(_create_event(timed, thread, recorder.began_ns, number))
    _note_forward_threads(result)
    result.extend(_attribute_memory(recorder, nest_events(result), threads))
    nest_events(result)
    for i, event in enumerate(result):
        event.id = i + 1
    return EventList(result, profile_memory=recorder.memory, with_flops=recorder.flops)


def _create_event(timed: Event, thread: int, began_ns: int, number: int) -> FunctionEvent:
    details = timed.details
    lines = None if timed.stack is None else [
        f"{code.co_filename}({line}): {code.co_name}" for code, line in timed.stack]
    event = FunctionEvent(
        0, timed.name, thread, (timed.begin_ns - began_ns) / 1e3, (timed.end_ns - began_ns) / 1e3,
        input_shapes=timed.shapes, stack=lines, scope=timed.scope,
        is_user_annotation=timed.scope == _LABEL, sequence_nr=details.sequence,
        flops=details.flops, concrete_inputs=list(details.arguments), strides=details.strides,
        dtypes=details.dtypes, record_id=number,
    )
    event.python_parent = details.caller
    if timed.name.startswith("ProfilerStep#"):
        event.name = "ProfilerStep*"  # tables sum the steps; traces number them
    return event


def _note_forward_threads(events: list[FunctionEvent]) -> None:
    """Note for nodes and their evaluation in which thread the operator ran that recorded them."""
    forward: dict[int, int] = {}
    for event in sorted(events, key=lambda e: e.time_range.start):
        if event.sequence_nr < 0:
            continue
        if event.name.startswith("aten::"):
            forward.setdefault(event.sequence_nr, event.thread)
        else:
            event.fwd_thread = forward.get(event.sequence_nr, 0)


def _attribute_memory(
    recorder: Recorder, events: list[FunctionEvent], threads: dict[int, int]
) -> list[FunctionEvent]:
    """Add memory changes to the calls that enclose them; return new events for the others.

    `events` must be ordered by start. Their nesting is cleared.
    """
    alone, begun = [], 0
    running: dict[int, list[FunctionEvent]] = {}
    for change in recorder.memory_events:
        time_us, thread = (change.time_ns - recorder.began_ns) / 1e3, threads.get(change.thread, 0)
        while begun < len(events) and events[begun].time_range.start <= time_us:
            running.setdefault(events[begun].thread, []).append(events[begun])
            begun += 1
        around = running[thread] = [
            e for e in running.get(thread, []) if e.time_range.end >= time_us]
        for event in around:
            event.cpu_memory_usage += change.nbytes
        if not around:
            alone.append(FunctionEvent(
                0, "[memory]", thread, time_us, time_us, cpu_memory_usage=change.nbytes))
    for event in events:
        event.cpu_parent = None
        event.cpu_children.clear()
    return alone


class record_function:
    """Context and decorator that labels code in a profile; without one it does nothing.

    >>> with torch.profiler.record_function("forward"):
    ...     torch.ones(2).sum()
    tensor(2.)
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begin_ns = 0

    def __enter__(self) -> record_function:
        recorder = Recording.target
        if recorder is not None:
            self._begin_ns = perf_counter_ns()
            recorder.open_labels[id(self)] = self.name, self._begin_ns, threading.get_ident()
        return self

    def __exit__(self, *exception: object) -> None:
        recorder = Recording.target
        if recorder is not None and self._begin_ns >= recorder.began_ns:
            stack = collect_user_stack(2) if recorder.stack else None
            shapes: Any = [[]] if recorder.shapes and self.args is not None else None
            recorder.open_labels.pop(id(self), None)
            recorder.events.append((self.name, self._begin_ns, perf_counter_ns(),
                                    threading.get_ident(), shapes, stack, _LABEL))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return note_wrapper(labelled, self, function)


class KinetoStepTracker:
    """The step number, as the maximum over several requesters' counts.

    A profile and an optimizer may both count the same step.
    """

    _counts: ClassVar[dict[str, int]] = {}
    _current_step = 0

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Start a requester's count at the current step."""
        cls._counts[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Remove a requester's count; return whether there was one."""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a requester's step; return the current step number."""
        if requester not in cls._counts:
            cls.init_step_count(requester)
        cls._counts[requester] += 1
        cls._current_step = max(cls._current_step, *cls._counts.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Return the current step number."""
        return cls._current_step


def kineto_available() -> bool:
    """Return True: profiles are always available."""
    return True
