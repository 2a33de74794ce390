"""Generator callbacks: functions that `yield` until an event, or until the end of their scope.

One function spans several stages, and its locals are its state. An error inside its scope is
thrown into it at its `yield`, so `try`, `finally` and `with` work across stages.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .event import Event, Events, Predicate
from .other_libraries import find_event

if TYPE_CHECKING:
    from .handlers import Entry, Handle, Handlers

Callback = Generator[Any, Event | None, Any]


def is_generator_callback(function: Any) -> bool:
    """Whether a call returns a generator: of a generator function, or of such a `__call__`."""
    if inspect.isgeneratorfunction(function) or inspect.ismethod(function):
        return inspect.isgeneratorfunction(function)
    inner = getattr(function, "func", None)  # functools.partial
    if inner is not None and is_generator_callback(inner):
        return True
    inner = type(function).__call__ if callable(function) else None
    return inspect.isgeneratorfunction(inner)


class Task:
    """A generator callback between the start and the end of its scope."""

    __slots__ = (
        "attached", "band", "entries", "generator", "handle", "handlers", "running", "sequence",
        "waits",
    )

    def __init__(self, handlers: Handlers, generator: Callback, handle: Handle, entry: Entry):
        self.handlers, self.generator, self.handle = handlers, generator, handle
        self.band, self.sequence = entry.band, entry.sequence
        self.waits: dict[Event, Predicate | None] = {}  # empty: running, or awaits the scope's end
        self.entries: dict[Event, Entry] = {}  # by event awaited so far
        self.attached, self.running = True, False

    @property
    def leaving(self) -> tuple[int, int, int]:
        """The sort key at the end of a scope: the last to enter leaves first."""
        return (-self.band, 1, -self.sequence)

    @property
    def until_end(self) -> bool:
        """Whether the generator waits for the end of its scope."""
        return not self.waits and not self.running

    def call(self, n: int) -> None:
        """Resume at the end of the scope."""
        if self.until_end:
            self.advance(None)

    def resume(self, event: Event, n: int) -> None:
        """Resume the generator if it waits for this event."""
        if event not in self.waits:
            return
        predicate = self.waits[event]
        if predicate is None or predicate(self.handlers.run, n):
            self.advance(event)

    def advance(self, event: Event | None) -> None:
        """Run to the next `yield`, whose value is the event."""
        self._stop_waiting()
        outer_task, self.handlers.current = self.handlers.current, self
        self.running = True
        try:
            awaited = self.generator.send(event)
        except StopIteration:
            self._forget()
            return
        except BaseException:
            self._forget()
            raise
        finally:
            self.running, self.handlers.current = False, outer_task
        if not self.handle.attached:
            self.close()
        elif awaited is not None:
            self._wait(awaited)

    def _wait(self, awaited: Any) -> None:
        if isinstance(awaited, str):
            try:
                awaited = find_event(awaited)
            except ValueError as error:
                self.throw(error)
        if not isinstance(awaited, (Event, Events)):
            self.throw(TypeError(
                f"{self.handle.title} yielded {awaited!r}: a callback yields an event (epoch.end), "
                "several joined by |, or nothing, to wait for the end of its scope"
            ))
            return
        for event in awaited:
            source = event.source
            self.waits[source] = event.predicate
            self.handlers.listen(source.scope, 1)
            if source not in self.entries:
                self.entries[source] = self.handlers.subscribe(self, source)

    def _stop_waiting(self) -> None:
        if self.waits:
            for event in self.waits:
                self.handlers.listen(event.scope, -1)
            self.waits.clear()

    def _forget(self) -> None:
        self._stop_waiting()
        self.attached = False
        self.handle.tasks.discard(self)
        for entry in self.entries.values():
            self.handlers.remove(entry)
        self.entries.clear()

    def throw(self, error: BaseException) -> None:
        """Raise `error` at its `yield`. It may clean up, but the error still propagates."""
        if not self.attached:
            return
        self._stop_waiting()
        try:
            self.running = True
            self.generator.throw(error)
        except StopIteration:
            pass
        finally:
            self.running = False
            self.close()
        raise error

    def close(self) -> None:
        """End the generator with its scope: the event it waits for will not come."""
        if self.running:  # it detached itself: closed when it yields
            return
        self._forget()
        self.generator.close()
