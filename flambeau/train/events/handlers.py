"""The handlers of a run: which are called at each event, and in which order.

Every handler, however attached, is an Entry in the list of its event. Lists are sorted when a
handler is attached or detached, not when an event fires.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

from .direct_handlers import Direct
from .event import Event, Events
from .generators import Task, is_generator_callback
from .handler_arguments import bind, form_of
from .order import Band, as_band
from .other_libraries import find_event
from .scope import PARTS, SCOPES, Scope

INSIDE = "parts of a step"  # key in `live` of the listeners of forward, backward and optim


class Entry:
    """A function in the list of an event. `call(n)` runs it, filters included; `of_run`, if not
    None, is the same as a function of the run, which saves a call."""

    __slots__ = (
        "attached", "band", "call", "event", "function", "leaving", "of_run", "sequence", "task",
    )

    def __init__(
        self, event: Event, function: Any, call: Callable[[int], Any], band: int, sequence: int,
        task: Task | None = None,
    ) -> None:
        self.event, self.function, self.call = event, function, call
        self.band, self.sequence, self.task = band, sequence, task
        self.attached = True
        self.of_run: Callable[[Any], Any] | None = None
        self.leaving = (-band, 0, sequence) if task is None else task.leaving

    @property
    def entering(self) -> tuple[int, int]:
        """The sort key at events other than ends."""
        return (self.band, self.sequence)


class Frame:
    """An open scope, and the generator callbacks that live in it."""

    __slots__ = ("n", "scope", "tasks")

    def __init__(self, scope: Scope, n: int) -> None:
        self.scope, self.n = scope, n
        self.tasks: list[Task] = []


class Handle:
    """Returned by `attach` and `use`: `detach()`, or leaving a `with`, undoes them.

    >>> from flambeau.train import Loop, step
    >>> loop = Loop(lambda batch: None)
    >>> with loop.attach(step.end, lambda run: print(run.state.step)):
    ...     _ = loop.run([1, 2])
    1
    2
    >>> _ = loop.run([1, 2])  # nobody listens any more
    """

    def __init__(self, handlers: Handlers, function: Any) -> None:
        self.handlers, self.function = handlers, function
        self.entries: list[Entry] = []
        self.tasks: set[Task] = set()
        self.undo: list[Callable[[], None]] = []
        self.attached = True

    @property
    def title(self) -> str:
        """The name for messages."""
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    def detach(self) -> None:
        """Detach the handler; close a running generator callback."""
        if not self.attached:
            return
        self.attached = False
        for entry in self.entries:
            if entry.attached:
                self.handlers.listen(entry.event.scope, -1)
                self.handlers.remove(entry)
        self.handlers.handles.remove(self)
        for undo in self.undo:
            undo()
        for task in list(self.tasks):
            task.close()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()


class Handlers:
    """All handlers of `run`, and its open scopes."""

    def __init__(self, run: Any) -> None:
        self.run = run
        # Number of current listeners by scope; a plain dict has the fastest lookup.
        self.live: dict[str, int] = dict.fromkeys((*(scope.name for scope in SCOPES), INSIDE), 0)
        self.frames: list[Frame] = []
        self.handles: list[Handle] = []
        self.current: Task | None = None
        self.plans: dict[str, tuple[Entry, ...]] = {}
        self.direct = {"step.end": Direct()}  # events so frequent that checking entries is costly
        self._sequence = itertools.count()

    # ---- attaching ----

    def attach(
        self, where: Any, function: Callable[..., Any], band: Any = None, *,
        number: str | None = None, handle: Handle | None = None,
    ) -> Handle:
        """Call `function` at one or several events; a generator runs through a scope."""
        if not callable(function):
            raise TypeError(f"a handler must be a function, got {type(function).__name__}")
        if isinstance(function, type):
            raise TypeError(f"{function.__name__} is a class: attach {function.__name__}(...)")
        if inspect.iscoroutinefunction(function):
            raise TypeError("a handler cannot be a coroutine: it must return when called")
        events = self._resolve_events(where, is_generator_callback(function), function)
        level = as_band(getattr(function, "band", Band.USER) if band is None else band)
        if handle is None:
            handle = self.add_handle(function)
        for event in events:
            entry = self._build_entry(event, function, level, number, handle)
            handle.entries.append(entry)
            self.listen(event.scope, 1)
            self._insert(entry)
            self._join(entry)
        return handle

    def listen(self, scope: str, change: int) -> None:
        """Add `change` to the number of listeners of a scope."""
        self.live[scope] = self.live.get(scope, 0) + change
        if scope in PARTS:
            self.live[INSIDE] += change
            self.run.update_parts()

    def _join(self, entry: Entry) -> None:
        """Start a generator callback at once if its scope is already open."""
        if is_generator_callback(entry.function):
            for frame in reversed(self.frames):
                if frame.scope.name == entry.event.scope:
                    entry.call(frame.n)
                    break

    def add_handle(self, function: Any) -> Handle:
        """Return a handle without events for a callback, ordered after the existing ones."""
        handle = Handle(self, function)
        self.handles.append(handle)
        return handle

    def _resolve_events(self, events: Any, is_generator: bool, function: Any) -> Events | Event:
        if isinstance(events, str):
            events = find_event(events)
        if isinstance(events, Scope):
            if not is_generator:
                raise TypeError(
                    f"{getattr(function, '__name__', function)} is attached to the scope "
                    f"'{events}': name an event ({events.name}.start, .end, .error); only "
                    "generator callbacks live through a scope"
                )
            return events.start
        if not isinstance(events, (Event, Events)):
            raise TypeError(f"expected an event such as epoch.end, got {events!r}")
        if is_generator and any(not event.name.endswith(".start") for event in events):
            raise TypeError(
                f"{getattr(function, '__name__', function)} is a generator callback: attach it to "
                f"a scope (run, epoch, ...), and inside it `yield` {events!r}"
            )
        return events

    def _build_entry(
        self, event: Event, function: Any, band: Band, number: str | None, handle: Handle
    ) -> Entry:
        call = bind(function, self.run, number)
        entry = Entry(event, function, call, band, next(self._sequence))
        if is_generator_callback(function):
            entry.call = lambda n: self._begin(call(n), handle, entry)
        if event.predicate is not None:
            entry.call = _filter_call(entry.call, event.predicate, self.run)
        elif entry.call is call and form_of(function) == "run":
            entry.of_run = function
        return entry

    def _begin(self, generator: Any, handle: Handle, entry: Entry) -> None:
        task = Task(self, generator, handle, entry)
        handle.tasks.add(task)
        frames = [frame for frame in self.frames if frame.scope.name == entry.event.scope]
        frames[-1].tasks.append(task)
        task.advance(None)

    def _insert(self, entry: Entry) -> None:
        name = entry.event.name
        leaving = name.endswith((".end", ".error"))
        entries = [*self.plans.get(name, ()), entry]
        entries.sort(key=_call_on_leave if leaving else _call_on_enter)
        self.plans[name] = tuple(entries)
        self.renew(name)

    def renew(self, name: str) -> None:
        """Rebuild the lists of an event whose entries changed."""
        direct = self.direct.get(name)
        if direct is not None:
            direct.renew(self.plans.get(name, ()))

    def remove(self, entry: Entry) -> None:
        """Remove an entry from its list; if its event is firing, it is no longer called."""
        entry.attached = False
        entry.call, entry.of_run = _ignore, None
        name = entry.event.name
        if name in self.direct:
            self.direct[name].drop(entry)
        remaining = tuple(e for e in self.plans.get(name, ()) if e is not entry)
        if remaining:
            self.plans[name] = remaining
        else:
            self.plans.pop(name, None)
        self.renew(name)

    def subscribe(self, task: Task, event: Event) -> Entry:
        """Subscribe a generator callback to an event; `live` counts it only while it waits."""
        entry = Entry(
            event, task.handle.function, lambda n: task.resume(event, n), task.band,
            task.sequence, task,
        )
        self._insert(entry)
        return entry

    def at(self, event: Event) -> tuple[Entry, ...]:
        """Return an event's entries in calling order."""
        return self.plans.get(event.name, ())

    # ---- firing ----

    def fire(self, event: Event, n: int) -> None:
        """Call the handlers of an event."""
        for entry in self.plans.get(event.name, ()):
            function = entry.of_run
            if function is None:
                entry.call(n)
            else:
                function(self.run)

    def open(self, scope: Scope, n: int) -> Frame:
        """Return a frame for a scope that is about to start."""
        frame = Frame(scope, n)
        self.frames.append(frame)
        return frame

    def leave(self, scope: Scope, n: int, frame: Frame | None) -> None:
        """Fire the end of a scope and resume its generator callbacks to their end."""
        if frame is None or not frame.tasks:
            self.fire(scope.end, n)
        else:
            waiting = [task for task in frame.tasks if task.until_end]
            plan: list[Any] = [*self.plans.get(scope.end.name, ()), *waiting]
            for entry in sorted(plan, key=_call_on_leave):
                if entry.attached:
                    entry.call(n)
            while frame.tasks:
                frame.tasks.pop().close()
        if frame is not None:
            if self.frames[-1] is frame:
                self.frames.pop()
            else:
                self.frames.remove(frame)

    def fail(self, scope: Scope, n: int, frame: Frame | None, error: BaseException) -> None:
        """Fire a scope's error and throw it into its generator callbacks. Returns normally if no
        handler raised another error; the caller then re-raises `error`."""
        first = error
        self.run.state.error = error
        try:
            self.fire(scope.error, n)
        except BaseException as raised:
            error = raised
        while frame is not None and frame.tasks:
            try:
                frame.tasks.pop().throw(error)
            except BaseException as raised:
                error = raised
        if frame is not None:
            self.frames.remove(frame)
        if error is not first:
            raise error


class Entered:
    """`with run.scope(scope):` fires its start, and its end or its error."""

    __slots__ = ("frame", "handlers", "n", "scope")

    def __init__(self, handlers: Handlers, scope: Scope, n: int) -> None:
        self.handlers, self.scope, self.n = handlers, scope, n
        self.frame: Frame | None = None

    def __enter__(self) -> None:
        handlers = self.handlers
        if handlers.live.get(self.scope.name):
            self.frame = handlers.open(self.scope, self.n)
            try:
                handlers.fire(self.scope.start, self.n)
            except BaseException as error:
                handlers.fail(self.scope, self.n, self.frame, error)
                raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        handlers = self.handlers
        if self.frame is None and not handlers.live.get(self.scope.name):
            return
        if error is not None:
            handlers.fail(self.scope, self.n, self.frame, error)
            return
        try:
            handlers.leave(self.scope, self.n, self.frame)
        except BaseException as raised:
            handlers.fail(self.scope, self.n, self.frame, raised)
            raise


def _ignore(n: int) -> None:
    """Replace a detached entry in a list being iterated."""


def _call_on_enter(entry: Any) -> Any:
    return entry.entering


def _call_on_leave(entry: Any) -> Any:
    return entry.leaving


def _filter_call(call: Callable[[int], Any], predicate: Any, run: Any) -> Callable[[int], None]:
    def filtered(n: int) -> None:
        if predicate(run, n):
            call(n)

    return filtered
