"""torch.autograd.profiler: labels for parts of a program, and profiles of what ran.

While a profile is on, operators wear a stub that notes when they began and ended
(`ops/interception/operator_timing.py`); otherwise nothing is paid.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import Any, Self

from ..tensor.absent import lacking
from .profiler_util import (
    DeviceType as DeviceType,
    EventList, FunctionEvent, FunctionEventAvg, Interval, nested, write_chrome_trace,
)

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "KinetoStepTracker",
           "profile", "record_function"]

_NAMES = ("emit_itt", "emit_nvtx", "load_nvprof", "parse_nvprof_trace", "EnforceUnique")

__getattr__ = lacking(__name__, _NAMES)
_LABEL = 7  # the scope of a label of the user's


class Recorder:
    """The events of a profile, as they are noted while it is on.

    `events`: (name, begin, end, thread, shapes, stack, bytes, scope), times of perf_counter_ns.
    """

    def __init__(self, shapes: bool, memory: bool, stack: bool, modules: bool) -> None:
        self.shapes, self.memory, self.stack, self.modules = shapes, memory, stack, modules
        self.events: list[tuple[Any, ...]] = []
        self.began_ns = 0
        self.wall_ns = 0


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


class profile:
    """Notes when operators, labels and modules begin and end, while it is on.

    `record_shapes`: the shapes of operators' arguments; `profile_memory`: bytes of their results;
    `with_stack`: the lines that called; `with_modules`: calls of modules. About half a microsecond
    for each operator, more with these.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2) + 1
    >>> "aten::add" in [event.key for event in prof.key_averages()]
    True
    """

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
        self.function_events: EventList | None = None
        self._recorder: Recorder | None = None

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start()
        return self

    def _start(self) -> None:
        recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack,
                            self.with_modules or self.with_stack)
        with Recording.lock:
            if Recording.now is not None:
                raise RuntimeError("Profiler is already enabled on this thread")
            Recording.turn(recorder)
            recorder.wall_ns, recorder.began_ns = time_ns(), perf_counter_ns()
            Recording.now = self._recorder = recorder

    def __exit__(self, *exception: object) -> None:
        if self.enabled and self._recorder is not None and Recording.now is self._recorder:
            with Recording.lock:
                Recording.now = None
                Recording.turn(None)
        self.function_events = None

    # ------------------------------------------------------------------------- results

    def events(self) -> EventList:
        """The calls, in the order in which they began; RuntimeError before any profile."""
        if self.function_events is None:
            if self._recorder is None:
                raise RuntimeError("Profiler didn't finish running")
            self.function_events = _events(self._recorder)
        return self.function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The calls with the same name, added up."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The calls as text."""
        return self.events().table(sort_by, row_limit, **options)

    def total_average(self) -> FunctionEventAvg:
        """All calls, added up."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all calls, each counted once."""
        return self.events().self_cpu_time_total

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the calls for chrome://tracing and Perfetto."""
        events = self.events()
        assert self._recorder is not None
        flags = {"with_stack": int(self.with_stack), "profile_memory": int(self.profile_memory),
                 "record_shapes": int(self.record_shapes)}
        write_chrome_trace(events, path, {**flags, **(metadata or {})},
                           self._recorder.wall_ns / 1e3)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write lines and their weights, for flame graph tools."""
        self.events().export_stacks(path, metric)

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else \
            repr(self.events())

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else \
            str(self.events())


def _events(recorder: Recorder) -> EventList:
    threads: dict[int, int] = {}
    result = []
    for name, begin, end, thread, shapes, stack, size, scope in recorder.events:
        lines = None if stack is None else [
            f"{code.co_filename}({line}): {code.co_name}" for code, line in stack]
        result.append(FunctionEvent(
            0, name, threads.setdefault(thread, len(threads) + 1),
            (begin - recorder.began_ns) / 1e3, (end - recorder.began_ns) / 1e3,
            input_shapes=shapes, stack=lines, scope=scope, cpu_memory_usage=size,
            is_user_annotation=scope == _LABEL,
        ))
    nested(result)
    for i, event in enumerate(result):
        event.id = i + 1
    for event in reversed(result):  # what is made in a call is made by it too
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_memory_usage = max(
                event.cpu_parent.cpu_memory_usage,
                sum(c.cpu_memory_usage for c in event.cpu_parent.cpu_children))
    return EventList(result, profile_memory=recorder.memory)


class record_function:
    """A label for what is done within, or in a function; without a profile it does nothing.

    >>> with torch.profiler.record_function("forward"):
    ...     torch.ones(2).sum()
    tensor(2.)
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begin_ns = 0

    def __enter__(self) -> record_function:
        if Recording.now is not None:
            self._begin_ns = perf_counter_ns()
        return self

    def __exit__(self, *exception: object) -> None:
        recorder = Recording.now
        if recorder is not None and self._begin_ns >= recorder.began_ns:
            stack = user_stack(2) if recorder.stack else None
            recorder.events.append((self.name, self._begin_ns, perf_counter_ns(),
                                    threading.get_ident(), None, stack, 0, _LABEL))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return labelled


class KinetoStepTracker:
    """How many steps profiles have been told of."""

    current = 0

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step."""
        cls.current += 1
        return cls.current

    @classmethod
    def current_step(cls) -> int:
        """The number of the step."""
        return cls.current


def kineto_available() -> bool:
    """Whether profiles work: they do."""
    return True
