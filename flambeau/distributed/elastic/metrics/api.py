"""Metrics of launchers: numbers that a handler per group receives."""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from ....native.foundation.user_frames import warn

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
           "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms", "prof", "profile",
           "publish_metric", "put_metric"]


class MetricData(NamedTuple):
    """A number at a time in seconds."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Settings of metrics, by name."""

    __slots__ = ["params"]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = {} if params is None else params


class MetricHandler(ABC):
    """Receives a group's numbers."""

    @abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take a number."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Print a number."""
        data = metric_data
        print(f"[{data.timestamp}][{data.group_name}]: {data.name}={data.value}")


class NullMetricHandler(MetricHandler):
    """Drops numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class MetricStream:
    """A group's handler."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Pass a number on to the handler."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


class _Handlers:
    """The handlers, by group, and that of all other groups."""

    by_group: ClassVar[dict[str, MetricHandler]] = {}
    default: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Set the handler of a group, or of all that have none."""
    if group is None:
        _Handlers.default = handler
    else:
        _Handlers.by_group[group] = handler


def getStream(group: str) -> MetricStream:
    """Return a group's stream."""
    return MetricStream(group, _Handlers.by_group.get(group, _Handlers.default))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Publish a number."""
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """The old name of `put_metric`, which takes the group first."""
    warn("Deprecated, use `put_metric(metric_group)(metric_name, metric_value)` instead",
         FutureWarning)
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return the milliseconds since a time of `time.time()`."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _name_metric(function: Callable) -> str:
    name = function.__qualname__
    module = function.__module__
    return name if "." in name or not module else f"{module.rpartition('.')[2]}.{name}"


def _measure(function: Callable, name: str, group: str) -> Callable:
    """Publish each call's duration, and whether it succeeded."""
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        start, outcome = time.time(), "failure"
        try:
            result = function(*args, **kwargs)
            outcome = "success"
        finally:
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(start), group)
        return result

    return wrapper


def prof(fn: Callable | None = None, group: str = "torchelastic") -> Any:
    """Decorate a function to publish `name.success` or `name.failure`, and `name.duration.ms`.

    >>> from flambeau.distributed.elastic import metrics
    >>> @metrics.prof(group="agent")
    ... def double(x):
    ...     return 2 * x
    >>> double(2)
    4
    """
    if fn is None:
        return lambda function: _measure(function, _name_metric(function), group)
    return _measure(fn, _name_metric(fn), group)


def profile(group: Any = None) -> Any:
    """The old name of `prof`, by the function's plain name."""
    warn("Deprecated, use `@prof` instead", FutureWarning)
    return lambda function: _measure(function, function.__name__, group)
