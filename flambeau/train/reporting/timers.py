"""Time the scopes of a run, and profile its handlers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from typing import Any, TextIO

from ..events.generators import Task
from ..events.handlers import Entry
from ..events.order import Band
from ..events.scope import Scope, backward, epoch, fetch, forward, optim, step, train, valid
from ..state.formatting import format_duration


class Row:
    """The measurements of a scope or handler."""

    __slots__ = ("began", "calls", "longest", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.seconds = self.longest = self.began = 0.0

    def add(self, seconds: float) -> None:
        """Add a measured time."""
        self.calls += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)

    def __repr__(self) -> str:
        return f"Row({self.name}: {self.calls} times, {format_duration(self.seconds)})"


class Timers:
    """Time scopes, handlers included: calls, total and longest.

    By default epoch, train, step, fetch (waiting for data) and valid; `parts=True` adds forward,
    backward and optim, which makes a compiled step run operator by operator. `rows` holds the
    measurements by name; `table()` formats them; `show` prints them at the end of the run.

    >>> from flambeau.train import Loop
    >>> timers = Timers(show=False)
    >>> _ = Loop(lambda batch: None, callbacks=[timers]).run([1, 2, 3], epochs=2)
    >>> {name: row.calls for name, row in timers.rows.items()}
    {'epoch': 2, 'train': 2, 'step': 6, 'fetch': 8, 'valid': 0}
    """

    band = Band.OUTER

    def __init__(
        self,
        *scopes: Scope,
        parts: bool = False,
        show: bool = True,
        stream: TextIO | None = None,
    ) -> None:
        self.scopes = scopes or (epoch, train, step, fetch, valid)
        if parts:
            self.scopes = (*self.scopes, forward, backward, optim)
        self.show = show
        self.stream = stream
        self.total = 0.0
        self.rows: dict[str, Row] = {}

    def __call__(self, run: Any) -> Generator[Any, Any, None]:
        """The callback: lives through the run."""
        self.rows = {scope.name: Row(scope.name) for scope in self.scopes}
        handles = []
        for scope in self.scopes:
            begin, end = _build_timers(self.rows[scope.name])
            handles.append(run.attach(scope.start, begin, self.band))
            handles.append(run.attach(scope.end | scope.error, end, self.band))
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.total = time.perf_counter() - start_s
            for handle in handles:
                handle.detach()
            if self.show:
                print(self.table(), file=self.stream or sys.stderr)

    def table(self) -> str:
        """Return a table with a line per scope."""
        return format_table(
            ("scope", "times"), [(row, row.name) for row in self.rows.values()], self.total
        )


def _build_timers(row: Row) -> tuple[Callable[[], None], Callable[[], None]]:
    clock, add = time.perf_counter, row.add

    def begin() -> None:
        row.began = clock()

    def end() -> None:
        add(clock() - row.began)

    begin.__qualname__ = end.__qualname__ = f"Timers.{row.name}"  # for the profile of handlers
    return begin, end


class HandlerProfile:
    """Time every handler of a run: functions, methods of callbacks, generator callbacks.

    `rows` holds the measurements by (event, handler); `table()` lists them, the slowest first,
    with their share of the run. A run without a profile pays nothing.

    >>> from flambeau.train import Loop, epoch
    >>> profile = HandlerProfile(show=False)
    >>> loop = Loop(lambda batch: None, callbacks=[profile])
    >>> @loop.on(epoch.end)
    ... def mine(run):
    ...     pass
    >>> _ = loop.run([1, 2], epochs=3)
    >>> profile.rows["epoch.end", "mine"].calls
    3
    """

    band = Band.OUTER

    def __init__(self, *, show: bool = True, stream: TextIO | None = None) -> None:
        self.show = show
        self.stream = stream
        self.total = 0.0
        self.rows: dict[tuple[str, str], Row] = {}
        self._wrapped: list[tuple[Entry, Callable[[int], Any], Any]] = []

    def __call__(self, run: Any) -> Generator[Any, Any, None]:
        """The callback: lives through the run."""
        self.rows.clear()
        handlers = run.handlers
        insert = handlers._insert

        def insert_watched(entry: Entry) -> None:
            self._watch(entry, handlers)
            insert(entry)

        for plan in list(handlers.plans.values()):
            for entry in plan:
                self._watch(entry, handlers)
        handlers._insert = insert_watched
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.total = time.perf_counter() - start_s
            del handlers._insert  # uncovers the method
            for entry, call, of_run in self._wrapped:
                if entry.attached:
                    entry.call, entry.of_run = call, of_run
                    handlers.renew(entry.event.name)
            self._wrapped.clear()
            if self.show:
                print(self.table(), file=self.stream or sys.stderr)

    def _watch(self, entry: Entry, handlers: Any) -> None:
        """Measure an entry; a generator callback is measured through its generator."""
        if entry.function is self or entry.task is not None:
            return
        title = describe_handler(entry.function)
        row = self.rows.setdefault((entry.event.name, title), Row(title))
        call, clock = entry.call, time.perf_counter

        def measured(n: int) -> None:
            frame = handlers.frames[-1] if handlers.frames else None
            tasks = 0 if frame is None else len(frame.tasks)
            start_s = clock()
            try:
                call(n)
            finally:
                row.add(clock() - start_s)
            if frame is not None and len(frame.tasks) > tasks:
                self._watch_generator(frame.tasks[-1], title)

        self._wrapped.append((entry, call, entry.of_run))
        entry.call, entry.of_run = measured, None
        handlers.renew(entry.event.name)

    def _watch_generator(self, task: Task, title: str) -> None:
        row = self.rows.setdefault(("yield", title), Row(title))
        task.generator = Watched(task.generator, row)  # type: ignore[assignment]

    def table(self) -> str:
        """Return a table with a line per handler, the slowest first."""
        rows = sorted(self.rows.items(), key=lambda item: -item[1].seconds)
        lines = [(row, f"{event:<16} {row.name}") for (event, _), row in rows if row.calls]
        return format_table((f"{'event':<16} handler", "calls"), lines, self.total)


class Watched:
    """A generator that times each of its stretches."""

    def __init__(self, generator: Any, row: Row) -> None:
        self._generator, self._row = generator, row

    def _time_call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        start_s = time.perf_counter()
        try:
            return method(*arguments)
        finally:
            self._row.add(time.perf_counter() - start_s)

    def send(self, value: Any) -> Any:
        """Resume until the next `yield`."""
        return self._time_call(self._generator.send, value)

    def throw(self, error: BaseException) -> Any:
        """Raise at the current `yield`."""
        return self._time_call(self._generator.throw, error)

    def close(self) -> None:
        """Close the generator."""
        self._time_call(self._generator.close)


def describe_handler(function: Any) -> str:
    """Return a handler's name: a function's own, a method with its class, a callback's class."""
    inner = getattr(function, "func", function)  # a functools.partial
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    return name.rpartition("<locals>.")[2]


def format_table(titles: tuple[str, str], rows: list[tuple[Row, str]], total: float) -> str:
    """Return aligned lines with calls, total time, time per call, longest call and share."""
    lines = [(titles[0], titles[1], "total", "each", "longest", "share")]
    for row, name in rows:
        average = format_duration(row.seconds / row.calls) if row.calls else "-"
        share = f"{100 * row.seconds / total:.1f} %" if total else "-"
        lines.append((name, str(row.calls), format_duration(row.seconds), average,
                      format_duration(row.longest), share))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        line[0].ljust(widths[0]) + "".join("  " + line[i].rjust(widths[i]) for i in range(1, 6))
        for line in lines
    )
