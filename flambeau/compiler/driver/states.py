"""The states of a specialization, and the table of legal transitions.

A state holds only the fields that are legal in it. `python -m flambeau.compiler.driver.states`
prints the table; docs/internals/recording.md draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from ..runtime.guarded_call import Program
from ..runtime.reachable_state import ReachableState
from ..trace.trace import Trace
from .build_task import BuildTask


class Event(Enum):
    """What happens to a specialization."""

    RECORDED = "a call was recorded"
    RESTARTED = "the recorded call does not count: the next one is the first"
    SUBMITTED = "the recorded call is worth a program, and a build began"
    INSTALLED = "its program agreed with the recorded call"
    INVALIDATED = "its program's guards failed"
    STOPPED = "it cannot be compiled"
    FOLLOWED = "its Python must run: all calls of the function are followed"


class State:
    """Base class. The defaults are for states without a recording."""

    is_evictable: ClassVar[bool] = True  # another specialization may replace it
    trace: Trace | None = None  # of the last recorded call
    reachable: ReachableState | None = None  # snapshot after that call
    recordings: int = 0  # calls recorded since recording began or restarted


@dataclass(eq=False, kw_only=True)
class New(State):
    """There is no recorded call to compare the next one with."""


@dataclass(eq=False, kw_only=True)
class Recorded(State):
    """The last call was recorded; the next is compared with it."""

    trace: Trace
    recordings: int
    reachable: ReachableState | None = None  # once it gets a program


@dataclass(eq=False, kw_only=True)
class Building(State):
    """A program is being built, possibly on another thread; calls run eagerly."""

    is_evictable: ClassVar[bool] = False  # the program would have no owner
    pending: BuildTask
    trace: Trace
    reachable: ReachableState | None


@dataclass(eq=False, kw_only=True)
class Installed(State):
    """A program serves the calls."""

    program: Program
    trace: Trace
    reachable: ReachableState | None


@dataclass(eq=False, kw_only=True)
class Outdated(State):
    """The program's guards failed. The next recording is compared with the program's recording; its
    problems are not final, because an optimizer may be creating state for a new parameter."""

    trace: Trace


@dataclass(eq=False, kw_only=True)
class Eager(State):
    """Calls stay eager."""

    is_evictable: ClassVar[bool] = False  # another recording would fail again
    reason: str


@dataclass(eq=False, kw_only=True)
class Followed(State):
    """The calls are followed, and the specialization has ended."""


TRANSITIONS: dict[tuple[type[State], Event], type[State]] = {
    (New, Event.RECORDED): Recorded,
    (Recorded, Event.RECORDED): Recorded,
    (Outdated, Event.RECORDED): Recorded,
    (Recorded, Event.RESTARTED): New,
    (Recorded, Event.SUBMITTED): Building,
    (Recorded, Event.INSTALLED): Installed,
    (Recorded, Event.STOPPED): Eager,
    (Building, Event.RESTARTED): New,
    (Building, Event.INSTALLED): Installed,
    (Building, Event.STOPPED): Eager,
    (Installed, Event.INVALIDATED): Outdated,
    (New, Event.FOLLOWED): Followed,
    (Recorded, Event.FOLLOWED): Followed,
    (Building, Event.FOLLOWED): Followed,
    (Installed, Event.FOLLOWED): Followed,
    (Outdated, Event.FOLLOWED): Followed,
    (Eager, Event.FOLLOWED): Followed,
}


class ImpossibleTransition(RuntimeError):
    """Raised for an event that cannot happen in a state, which is a driver bug."""


def check_transition(before: State, event: Event, after: State) -> None:
    """Raise ImpossibleTransition if a transition is not in the table."""
    expected = TRANSITIONS.get((type(before), event))
    if expected is None:
        raise ImpossibleTransition(f"{event.name} cannot happen in {type(before).__name__}")
    if type(after) is not expected:
        raise ImpossibleTransition(f"{event.name} leads from {type(before).__name__} to "
                                   f"{expected.__name__}, not to {type(after).__name__}")


def format_table() -> str:
    """Return the table as text, one line per transition."""
    return "\n".join(
        f"{before.__name__:<10} ── {event.name:<11} ──► {after.__name__:<10} ({event.value})"
        for (before, event), after in TRANSITIONS.items()
    )


if __name__ == "__main__":
    print(format_table())
