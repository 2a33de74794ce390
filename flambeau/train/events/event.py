"""Events: named moments of a run, filtered by counting (`every=`, `once=`, ...), joined by `|`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

Predicate = Callable[..., bool]


class Event:
    """A point in a run to listen to; call it to filter it.

    `every=2` keeps every second event, `once=3` (or a collection) only those numbers; `before=` and
    `after=` are exclusive, and `every` counts from `after`. A function `(run, n)` is a filter of
    your own (`event_filter=` is ignite's name for it). `n` is the number of the event: the epoch,
    the step since the start of the run, or how often a custom event has fired.

    Raises ValueError for numbers below one and TypeError for anything but numbers.

    >>> from flambeau.train import epoch
    >>> epoch.end(every=2, after=3)
    epoch.end(every=2, after=3)
    >>> epoch.start | epoch.end
    epoch.start | epoch.end
    """

    __slots__ = ("arguments", "name", "predicate", "scope", "source")

    def __init__(self, name: str, scope: str | None = None) -> None:
        self.name = name
        self.scope = name if scope is None else scope
        self.source = self
        self.predicate: Predicate | None = None
        self.arguments: tuple[str, ...] = ()

    def __call__(
        self,
        predicate: Predicate | None = None,
        *,
        every: int | None = None,
        once: int | Collection[int] | None = None,
        before: int | None = None,
        after: int | None = None,
        event_filter: Predicate | None = None,
    ) -> Event:
        predicate = join_predicates(predicate, event_filter)
        count_filter = build_predicate(predicate, every, once, before, after)
        filtered = Event(self.name, self.scope)
        filtered.source = self.source
        filtered.predicate = join_predicates(self.predicate, count_filter)
        supplied = {"every": every, "once": once, "before": before, "after": after}
        filtered.arguments = (
            *self.arguments,
            *([getattr(predicate, "__name__", "predicate")] if predicate is not None else []),
            *(f"{name}={value}" for name, value in supplied.items() if value is not None),
        )
        return filtered

    def __or__(self, other: Event | Events) -> Events:
        return Events((self, *other)) if isinstance(other, (Event, Events)) else NotImplemented

    def __iter__(self) -> Iterator[Event]:
        yield self

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name


class Events(tuple[Event, ...]):
    """A union of events: any of them fires it.

    >>> from flambeau.train import epoch, step
    >>> epoch.end | step.end(every=100)
    epoch.end | step.end(every=100)
    """

    __slots__ = ()

    def __or__(self, other: Event | Events) -> Events:
        return Events((*self, *other)) if isinstance(other, (Event, Events)) else NotImplemented

    def __repr__(self) -> str:
        return " | ".join(map(repr, self))


def join_predicates(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    """Return the conjunction of two predicates; None stands for "always"."""
    if first is None or second is None:
        return first or second
    return lambda run, n: first(run, n) and second(run, n)


def build_predicate(
    predicate: Predicate | None, every: Any, once: Any, before: Any, after: Any
) -> Predicate | None:
    """Build a predicate from the arguments of Event.__call__."""
    if predicate is not None and not callable(predicate):
        raise TypeError(f"an event filter must be a function (run, n), got {predicate!r}")
    for name, value in (("every", every), ("before", before), ("after", after)):
        if value is not None:
            _check(name, value, minimum=0 if name == "after" else 1)
    chosen: frozenset[int] | None = None
    if once is not None:
        chosen = frozenset((once,) if isinstance(once, int) else once)
        for value in chosen:
            _check("once", value, minimum=1)
    if every in (None, 1) and chosen is None and before is None and after is None:
        return predicate
    first = after or 0
    passing = range(first + (every or 1), before or sys.maxsize, every or 1)
    if not passing or (chosen is not None and not any(n in passing for n in chosen)):
        supplied = {"every": every, "once": once, "before": before, "after": after}
        counts = ", ".join(f"{k}={v}" for k, v in supplied.items() if v is not None)
        raise ValueError(f"no event passes ({counts}): before and after exclude their own number")

    def holds(run: Any, n: int) -> bool:
        return (
            n > first
            and (before is None or n < before)
            and (chosen is None or n in chosen)
            and (every is None or (n - first) % every == 0)
            and (predicate is None or predicate(run, n))
        )

    return holds


def _check(name: str, value: Any, minimum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} counts events, so it is a whole number; got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
