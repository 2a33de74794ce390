"""torch.profiler._utils: metrics that PyTorch computes from a profile's event tree.

Self times of all events; and for traces of an accelerator, the number of queued kernels and the
device's idle time. flambeau itself queues no kernels.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.profiler import DeviceType

_LAUNCHES = ("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCooperativeKernel")
_MIN_PEAK_DEPTH = 4  # minimum queued kernels at the peak of a falling queue
_SELF_TIME_WEIGHT = 0.6  # weight of self time relative to device idle time
_TRANSFERS = ("mem", "cpy", "alloc", "free")


def traverse_dfs(tree: Iterable[Any]) -> Iterator[Any]:
    """Yield the nodes of trees in pre-order."""
    remaining = list(tree)[::-1]
    while remaining:
        node = remaining.pop()
        yield node
        remaining.extend(reversed(node.children))


def traverse_bfs(tree: Iterable[Any]) -> Iterator[Any]:
    """Yield the nodes of trees in breadth-first order."""
    remaining = deque(tree)
    while remaining:
        node = remaining.popleft()
        yield node
        remaining.extend(node.children)


@dataclass
class EventMetrics:
    """Times of an event in nanoseconds, and the number of kernels queued at its start."""

    duration_time_ns: int = 0
    self_time_ns: int = 0
    idle_time_ns: int = 0
    queue_depth: int = 0

    @property
    def fraction_idle_time(self) -> float:
        """The fraction of its time during which the device was idle."""
        return self.idle_time_ns / self.duration_time_ns if self.duration_time_ns else 0.0


@dataclass
class Interval:
    """An interval from `start` to `end`, and the number of kernels queued during it."""

    start: int
    end: int
    queue_depth: int = 0


class EventKey:
    """An event as a dictionary key, compared by id."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def __hash__(self) -> int:
        return hash(self.event.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventKey) and self.event.id == other.event.id

    def __repr__(self) -> str:
        return f"{self.event.name}"

    def intervals_overlap(self, intervals: list[Interval]) -> int:
        """Return how many nanoseconds of the event lie within the intervals."""
        overlap, reached = 0, self.event.start_time_ns
        for interval in sorted(intervals, key=lambda i: i.start):
            start = max(reached, interval.start)
            end = min(self.event.end_time_ns, interval.end)
            if end > start:
                overlap, reached = overlap + end - start, end
        return overlap


def _name_of(event: Any) -> str:
    name = event.name
    return str(name() if callable(name) else name)


class BasicEvaluation:
    """Metrics of all events of a `torch.autograd.profiler.profile`."""

    def __init__(self, prof: Any) -> None:
        self.profile = prof
        self.metrics: dict[EventKey, EventMetrics] = {}
        self.compute_self_time()
        self.event_keys = sorted(self.metrics, key=lambda key: key.event.start_time_ns)
        self.events = [key.event for key in self.event_keys]
        self.cuda_events: list[Any] = []
        self.queue_depth_list = self.compute_queue_depth()
        self.compute_idle_time()

    def compute_self_time(self) -> None:
        """Set the total time and the self time of each event."""
        for event in traverse_dfs(self.profile.kineto_results.experimental_event_tree()):
            children_ns = sum(child.duration_time_ns for child in event.children)
            key = EventKey(event)
            if key in self.metrics:
                raise AssertionError(f"Duplicate id: {event.id}, {event.name}")
            self.metrics[key] = EventMetrics(
                event.duration_time_ns, event.duration_time_ns - children_ns)

    def compute_queue_depth(self) -> list[Interval]:
        """Return the queue depth at each launch and kernel; also set it for each event."""
        launches, kernels = [], []
        for event in self.profile.kineto_results.events():
            name = _name_of(event)
            if name.startswith(_LAUNCHES):
                launches.append(event)
            elif event.device_type() == DeviceType.CUDA \
                    and not any(transfer in name.lower() for transfer in _TRANSFERS):
                kernels.append(event)
        kernels.sort(key=lambda e: e.start_ns())
        self.cuda_events = sorted(launches + kernels, key=lambda e: e.start_ns())
        positions = {k.linked_correlation_id(): i for i, k in enumerate(kernels)}
        starts = [k.start_ns() for k in kernels]
        launched = sorted((e.start_ns(), positions[e.linked_correlation_id()]) for e in launches
                          if e.linked_correlation_id() in positions)
        launch_times = [time_ns for time_ns, _ in launched]

        def depth_at(time_ns: int) -> int:
            last = bisect_right(launch_times, time_ns) - 1
            spawned = launched[last][1] + 1 if last >= 0 else 0
            return max(spawned - bisect_right(starts, time_ns), 0)

        for event in self.events:
            self.metrics[EventKey(event)].queue_depth = depth_at(event.start_time_ns)
        return [Interval(e.start_ns(), e.start_ns() + e.duration_ns(), depth_at(e.start_ns()))
                for e in self.cuda_events]

    def compute_idle_time(self) -> None:
        """Set how long the device was idle during each event."""
        points, idle, since = self.queue_depth_list, [], None
        if points and self.events:
            idle = [Interval(self.events[0].start_time_ns, points[0].start),
                    Interval(points[-1].end, self.events[-1].end_time_ns)]
        for point in points:
            if point.queue_depth == 0 and since is None:
                since = point.end
            elif point.queue_depth > 0 and since is not None:
                idle.append(Interval(since, point.start))
                since = None
        for key, metrics in self.metrics.items():
            metrics.idle_time_ns = key.intervals_overlap(idle)

    def rank_events(self, length: int) -> list[EventKey]:
        """Return at most `length` events during which the queue drained, ranked by device idle
        time and self time."""
        falling = self._falling_intervals()
        keys = [key for key in self.metrics if key.intervals_overlap(falling)]
        if not keys:
            return []
        idle = np.array([self.metrics[key].fraction_idle_time for key in keys], np.float32)
        self_times = np.array([self.metrics[key].self_time_ns for key in keys], np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a single event
            scores = _standardize(idle) + np.float32(_SELF_TIME_WEIGHT) * _standardize(self_times)
        order = sorted(range(len(keys)), key=lambda i: scores[i], reverse=True)
        return [keys[i] for i in order[:length]]

    def _falling_intervals(self) -> list[Interval]:
        """Return the intervals in which the queue fell from a peak to 0."""
        points = self.queue_depth_list
        depths = [point.queue_depth for point in points]
        intervals, last = [], len(points) - 1
        while last > 0:
            if depths[last] > 0:
                last -= 1
                continue
            first = last - 1  # moves to the previous empty point, before a peak
            while first >= 0 and depths[first] > 0:
                first -= 1
            inner = range(last - 1, first, -1)
            peak = max(inner, key=lambda i: depths[i], default=None)
            if peak is not None and depths[peak] >= _MIN_PEAK_DEPTH:
                intervals.append(Interval(points[peak].start, points[last].start))
            last = first
        return intervals

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[EventKey]:
        """Return `rank_events`; with `print_enable`, print them with their enclosing functions."""
        keys = self.rank_events(length)
        if print_enable:
            rule = "-" * 80
            print("Optimizable events:" if keys else "No events to optimize")
            for key in keys:
                idle = self.metrics[key].fraction_idle_time * 100
                print(f"{rule}\nEvent:                {key}\n"
                      f"Source code location: {source_code_location(key.event)}\n"
                      f"Percentage idle time: {idle:.2f}%\n{rule}")
        return keys


def _standardize(values: np.ndarray) -> np.ndarray:
    """Return distances from the mean in standard deviations."""
    return (values - values.mean()) / values.std(ddof=min(1, values.size - 1))


def source_code_location(event: Any) -> str:
    """Return the innermost Python function that encloses an event."""
    while event is not None:
        if re.search(r"\.py\(.*\)", event.name):
            return str(event.name)
        event = event.parent
    return "No source code location found"
