"""torch.monitor: events and statistics that a process publishes to its handlers.

https://docs.pytorch.org/docs/2.13/monitor.html
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "data_value_t",
    "log_event", "register_event_handler", "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"


class Aggregation(Enum):
    """What a Stat computes of its values. PyTorch leaves VALUE out of all results."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


globals().update(Aggregation.__members__)


class data_value_t:
    """The type of an event's values: str, float or int; a bool becomes a float."""


class Event:
    """Something that happened: a name, a time, and a dict of numbers and strings.

    >>> from datetime import datetime
    >>> torch.monitor.Event("epoch", datetime(2026, 1, 2), {"loss": 0.5}).data
    {'loss': 0.5}
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: Mapping[str, Any]) -> None:
        fits = isinstance(name, str) and isinstance(timestamp, datetime.datetime)
        if not fits or not all(isinstance(v, (str, int, float)) for v in data.values()):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are "
                "supported:\n    1. torch._C._monitor.Event(name: str, timestamp: "
                "datetime.datetime, data: collections.abc.Mapping[str, data_value_t])\n\n"
                f"Invoked with: {name!r}, {timestamp!r}, {data!r}"
            )
        self.name, self.timestamp = name, timestamp
        self.data = {k: float(v) if isinstance(v, bool) else v for k, v in data.items()}


class EventHandlerHandle:
    """What `register_event_handler` returns, for `unregister_event_handler`."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []
_lock = threading.Lock()


def register_event_handler(handler: Callable[[Event], None]) -> EventHandlerHandle:
    """Call `handler(event)` for every event from now on."""
    handle = EventHandlerHandle(handler)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handle: EventHandlerHandle) -> None:
    """Take a handler away; the handle is the one that registering it returned."""
    with _lock:
        if handle in _handlers:
            _handlers.remove(handle)


def log_event(event: Event) -> None:
    """Hand an event to all handlers, in the order of their registration.

    >>> from datetime import datetime
    >>> names = []
    >>> handle = torch.monitor.register_event_handler(lambda event: names.append(event.name))
    >>> torch.monitor.log_event(torch.monitor.Event("epoch", datetime(2026, 1, 2), {}))
    >>> torch.monitor.unregister_event_handler(handle)
    >>> names
    ['epoch']
    """
    with _lock:
        handlers = list(_handlers)
    for handle in handlers:
        handle._handler(event)


class Stat:
    """Aggregates of the values of a window of time, which are logged as an event at its end.

    `window_size`: the window's length. `max_samples`: a window ends after as many values, too, and
    what is added to it later does not count.

    >>> from datetime import timedelta
    >>> stat = torch.monitor.Stat("loss", [torch.monitor.Aggregation.MEAN], timedelta(hours=1), 2)
    >>> stat.add(1.0)
    >>> stat.add(2.0)
    >>> stat.get()
    {<Aggregation.MEAN: 2>: 1.5}
    """

    def __init__(self, name: str, aggregations: Iterable[Aggregation],
                 window_size: datetime.timedelta, max_samples: int = -1) -> None:
        self.name = name
        self._aggregations = tuple(a for a in aggregations if a is not Aggregation.VALUE)
        self._window_s, self._max_samples = window_size.total_seconds(), max_samples
        self._lock = threading.Lock()
        self._values: list[float] = []
        self._previous = self._aggregated()
        self._window, self._is_logged = self._window_now(), False

    @property
    def count(self) -> int:
        """How many values the present window has."""
        self._close_window()
        return len(self._values)

    def add(self, v: float) -> None:
        """Add a value to the present window."""
        self._close_window()
        with self._lock:
            if self._is_logged:
                return
            self._values.append(float(v))
        self._close_window()

    def get(self) -> dict[Aggregation, float]:
        """The aggregates of the last window that ended; zeros before there is one."""
        self._close_window()
        return dict(self._previous)

    def _window_now(self) -> int:
        return int(time.monotonic() // self._window_s) if self._window_s else 0

    def _close_window(self) -> None:
        """Log the window's aggregates if its time is over, or if it is full."""
        with self._lock:
            is_over = (window := self._window_now()) != self._window
            is_full = 0 < self._max_samples <= len(self._values)
            if not (is_over or is_full):
                return
            self._window, self._is_logged = window, not is_over
            if not self._values:
                return
            self._previous = self._aggregated()
            self._values.clear()
            data = {f"{self.name}.{a.name.lower()}": v for a, v in self._previous.items()}
        log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def _aggregated(self) -> dict[Aggregation, float]:
        values = self._values
        total = sum(values)
        results = {
            Aggregation.MEAN: total / max(len(values), 1),
            Aggregation.COUNT: float(len(values)),
            Aggregation.SUM: float(total),
            Aggregation.MAX: max(values, default=0.0),
            Aggregation.MIN: min(values, default=0.0),
        }
        return {a: results[a] for a in self._aggregations}


class TensorboardEventHandler:
    """An event handler that writes the events of Stats as scalars.

    `writer`: a SummaryWriter.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
