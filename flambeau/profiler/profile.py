"""torch.profiler.profile: records the steps selected by a schedule, and hands over the results."""

from __future__ import annotations

import enum
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from ..autograd import profiler
from ..autograd.profiler import KinetoStepTracker, record_function
from ..autograd.profiler_util import EventList
from ..native.foundation.user_frames import warn
from .memory.memory_profile import MemoryProfile
from .memory.memory_timeline import MemoryProfileTimeline
from .schedule import ProfilerAction, _default_schedule_fn


class ProfilerActivity(enum.Enum):
    """The device activities to record. Whatever is requested, only the CPU is recorded."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that profiles can record.

    >>> torch.profiler.supported_activities() == {torch.profiler.ProfilerActivity.CPU}
    True
    """
    return {ProfilerActivity.CPU}


_ON = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Profiles the enclosed code, or the steps selected by `schedule`.

    With a schedule, call `step()` at the end of each step; `on_trace_ready(profile)` is called
    after each complete cycle. For the other arguments see `torch.autograd.profiler.profile`.

    >>> with torch.profiler.profile() as prof:
    ...     y = torch.ones(2) + 1
    >>> "aten::add" in [event.key for event in prof.key_averages()]
    True
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: Any = None,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.execution_trace_observer = execution_trace_observer
        self.step_num = 0
        KinetoStepTracker.init_step_count("Torch Profiler")
        self.current_action = self.schedule(0)
        self.profiler: profiler.profile | None = None
        self.step_rec_fn: record_function | None = None
        self.metadata: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        KinetoStepTracker.erase_step_count("Torch Profiler")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Start profiling, as `with` does."""
        if self.current_action in _ON:
            self.start_trace()
        self._label()

    def stop(self) -> None:
        """Stop profiling and hand over what was recorded since the last complete cycle."""
        self._end_label()
        if self.current_action in _ON and self._running():
            self._finish()

    def step(self) -> None:
        """Signal that a step has ended and the next one starts."""
        self._end_label()
        previous, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        if previous is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        elif previous is ProfilerAction.RECORD and self.current_action not in _ON:
            following = "NONE" if self.current_action is ProfilerAction.NONE else "WARMUP"
            warn(f"Incorrect schedule: RECORD followed by {following}")
            self.stop_trace()
        if self.current_action in _ON and not self._running():
            self.start_trace()
        KinetoStepTracker.increment_step("Torch Profiler")
        self._label()

    def _label(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_label(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _running(self) -> bool:
        return self.profiler is not None and profiler.Recording.now is self.profiler._recorder

    def _finish(self) -> None:
        self.stop_trace()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start_trace(self) -> None:
        """Start recording."""
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        self.profiler = profiler.profile(
            record_shapes=self.record_shapes, profile_memory=self.profile_memory,
            with_stack=self.with_stack, with_modules=self.with_modules, with_flops=self.with_flops,
        )
        self.profiler.__enter__()

    def stop_trace(self) -> None:
        """Stop recording."""
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        if self.profiler is not None:
            self.profiler.__exit__(None, None, None)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Accept and ignore the callback."""

    def get_trace_id(self) -> str | None:
        """Return None: traces have no ids."""
        return None

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Pause or resume recording within a profile."""
        if self.profiler is None or self.profiler._recorder is None:
            return
        profiler.Recording.turn(self.profiler._recorder if enable else None)

    # ------------------------------------------------------------------------- results

    def _recorded(self) -> profiler.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before exporting or getting events")
        return self.profiler

    def _stats(self) -> profiler.ProfilerStats | None:
        """Return the time spent by the profile itself, or None before it starts."""
        return None if self.profiler is None else self.profiler._stats

    def events(self) -> EventList:
        """Return the calls ordered by start."""
        return self._recorded().events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the calls summed by name, optionally also by input shapes and stack."""
        return self._recorded().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the calls for chrome://tracing and Perfetto; compressed if `path` ends in .gz."""
        self._recorded().export_chrome_trace(path, self.metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks and their weights for flame graph tools."""
        self._recorded().export_stacks(path, metric)

    def _memory_profile(self) -> MemoryProfile:
        """Return the categories and the timeline of the profile's memory."""
        names = ("record_shapes", "profile_memory", "with_stack")
        missing = ", ".join(f"{name}=True" for name in names if not getattr(self, name))
        if missing:
            raise ValueError(f"{missing} required for memory profiling.")
        return MemoryProfile(self._recorded().kineto_results)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write the memory of each category over time: a page for a path that ends in .html, every
        change for .raw.json and .raw.json.gz, else times and totals as JSON, compressed for .gz.
        """
        timeline, on = MemoryProfileTimeline(self._memory_profile()), device or "cpu"
        if path.endswith(".html"):
            timeline.export_memory_timeline_html(path, on)
        elif path.endswith((".raw.json", ".raw.json.gz")):
            timeline.export_memory_timeline_raw(path, on)
        else:
            timeline.export_memory_timeline(path, on)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text entry to the trace file."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON-encoded value to the trace file."""
        self.metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return an `on_trace_ready` that writes trace files for TensorBoard's profile plugin."""

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".gz" if use_gzip else ""
        name = f"{worker}.{time.time_ns()}.pt.trace.json{end}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write
