"""torch.autograd.profiler_util: events of a profile, their averages, and export to files."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .traces.chrome_trace import write_chrome_trace
from .traces.profile_table import build_table, format_time

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class DeviceType(enum.Enum):
    """The kind of device that an event ran on."""

    CPU, CUDA = 0, 1


class Interval:
    """An interval from `start` to `end`, in microseconds since the profile began."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


class _Times:
    """Base of events and averages: device times, which are all 0, and formatted times."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = 0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """Average microseconds per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """0, because there is no other device."""
        return 0.0

    cuda_time = device_time
    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))
    device_time_str = property(lambda self: format_time(self.device_time))
    device_time_total_str = property(lambda self: format_time(self.device_time_total))


class FunctionEvent(_Times):
    """One call of an operator, a labeled region, a module, or a kernel of a compiled step.

    `time_range` is in microseconds since the profile began; `cpu_memory_usage` in bytes.
    """

    is_async = is_remote = is_legacy = False
    node_id, device_index, fwd_thread = -1, -1, 0
    overload_name = ""
    use_device = None
    count = 1

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, *,
        input_shapes: Any = None, stack: Any = None, scope: int = 0, cpu_memory_usage: int = 0,
        sequence_nr: int = -1, is_user_annotation: bool = False, flops: int = 0,
        concrete_inputs: Any = None, strides: Any = (), dtypes: Any = (), record_id: int = 0,
    ) -> None:
        self.id, self.name, self.trace_name, self.thread = id, name, name, thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = [] if input_shapes is None else input_shapes
        self.stack = [] if stack is None else stack
        self.scope, self.sequence_nr, self.flops = scope, sequence_nr, flops
        self.cpu_memory_usage = cpu_memory_usage
        self.is_user_annotation = is_user_annotation
        self.python_parent = 0  # the number of the Python call around a module's call
        self.device_type = DeviceType.CPU
        self.device_resource_id = thread
        self.kernels: list[Any] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.concrete_inputs: list[Any] = concrete_inputs or []
        self.strides, self.dtypes = strides, dtypes
        self.record_id = record_id  # of the call, in trace files and execution traces
        self.kwinputs: dict[str, Any] = {}

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add a call made within this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the call that encloses this one."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """The event's name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, including nested calls."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds, excluding nested calls."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:  # type: ignore[override]
        """Bytes of results, excluding nested calls."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} None_time=0.000us "
            f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} None_memory_usage=0 "
            f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} "
            f"is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(_Times):
    """The sum of events with the same key."""

    is_async = is_remote = is_legacy = False
    node_id = -1
    overload_name = ""
    use_device = None

    def __init__(self) -> None:
        self.key: str | None = None
        self.count, self.flops, self.scope = 0, 0, 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.input_shapes: Any = ""
        self.stack: list[str] = []
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type: Any = None
        self.is_user_annotation = False

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or another average with the same key."""
        if self.key is None:
            self.key, self.scope = other.key, other.scope
            self.cpu_parent, self.cpu_children = other.cpu_parent, other.cpu_children
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.device_type = other.device_type
            self.is_user_annotation = other.is_user_annotation
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        self.flops += other.flops
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time=0.000us cuda_time=0.000us "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            "cuda_memory_usage=0>"
        )


class EventList(list[Any]):
    """A list of events, ordered by start."""

    def __init__(
        self, events: Iterable[Any] = (), use_device: Any = None, profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device, self._profile_memory, self._with_flops = (
            use_device, profile_memory, with_flops)

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Total self time of all events in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a text table, one row each, largest `sort_by` first.

        `sort_by`: "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage",
        "self_cpu_memory_usage" or "count".
        """
        return build_table(
            self, sort_by, header, row_limit, (max_name_column_width, max_shapes_column_width,
            max_src_column_width), self._profile_memory, top_level_events_only, time_unit,
            self._with_flops,
        )

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the events summed by name, optionally also by input shapes and stack."""
        groups: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            stack = tuple(event.stack[:group_by_stack_n])
            groups[event.key, shapes, stack].add(event)
        averages = EventList(groups.values(), self._use_device, self._profile_memory,
                             self._with_flops)
        for average in averages:
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return averages

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return the metrics that `export_stacks` accepts."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
                "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write stacks weighted by CPU self time, in the format of flame graph tools."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError("metric should be one of: "
                             + str(self.supported_export_stacks_metrics()))
        weights: dict[str, float] = defaultdict(float)
        for event in self:
            if event.stack:
                lines = ";".join(line.replace(" ", "_").replace(";", "_")
                                 for line in reversed(event.stack))
                weights[lines] += event.self_cpu_time_total
        with open(path, "w") as file:
            file.writelines(f"{lines} {int(w)}\n" for lines, w in weights.items() if int(w) > 0)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing and Perfetto."""
        write_chrome_trace(self, path)


def nest_events(events: list[FunctionEvent]) -> list[FunctionEvent]:
    """Sort events by start and set the parent and children of each by nesting in time."""
    events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
    open_events: dict[int, list[FunctionEvent]] = defaultdict(list)
    for event in events:
        stack = open_events[event.thread]
        while stack and stack[-1].time_range.end < event.time_range.end:
            stack.pop()
        if stack:
            event.set_cpu_parent(stack[-1])
            stack[-1].append_cpu_child(event)
        stack.append(event)
    return events
