"""Segment: the events between two points of a call at which all values are computed.

Segments form a tree. A segment ends where Python reads a value, where the call does something other
than the next event, or with the call. That point is an `Exit`, which knows the segments that
followed it in earlier calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ops.core.operator import Kind
from .backward_pass import BackwardPass
from .holder_census import HolderCensus
from .memory_layout import RecycledMemory
from ..trace.trace import CONSTANT, DRAW, EMPTY, OPERATOR, UPDATE, WRITE, Event, Value, values_in

if TYPE_CHECKING:
    from .following import Following


# Kinds of storage: allocated by the segment, the same in every call, new in every call.
INTERNAL, STABLE, INPUT = range(3)


@dataclass(eq=False)
class Memory:
    """A storage of a segment.

    owner: of stable memory, the array that owns it.
    first: of an input, the window of its first use.
    computed: the first event that gives it values.
    """

    kind: int
    whole: Value
    owner: np.ndarray | None = None
    first: Value | None = None
    computed: int | None = None
    written: bool = False


class Program(Protocol):
    """A compiled program of a segment's first events: of fixed shapes, or of a growing length.

    survivors: the storages that outlive the call.
    calls: how often it ran.
    """

    calls: int
    survivors: frozenset[int]

    @property
    def segment(self) -> Segment:
        """The segment that it computes."""

    def may_run_alone(self) -> bool:
        """Whether it agreed with eager execution often enough to run without it."""

    def run(self, following: Following) -> bool:
        """Compute the call's values; False where it cannot, and nothing has been written."""

    def verify(self, following: Following, replay: Callable[[], None]) -> str | None:
        """Compute beside eager execution; name what differs, or None."""

    def note_agreement(self) -> None:
        """Count a call in which it agreed."""


class Entry:
    """An event, prepared for comparison with what a call does.

    operands: for each parameter of an operator (storage, expected value); the storage is None
        unless a tensor on all of it is expected.
    results: for each result (window, whether it covers part of its owner); None for the common
        case of one tensor on new memory.
    allocated: the storages that begin here.
    """

    __slots__ = (
        "allocated", "buffer", "event", "kind", "operands", "operator", "results",
        "returns_several", "update",
    )

    def __init__(self, event: Event) -> None:
        self.event, self.kind, self.operator = event, event.kind, event.operator
        self.allocated: tuple[int, ...] = ()
        self.buffer: Any = None  # of a draw
        self.update: Any = None  # of an optimizer's step over a group
        self.operands: tuple[tuple[int | None, Any], ...] = ()
        self.results: tuple[tuple[Value | None, bool], ...] | None = None
        self.returns_several = False

    def prepare(self, memory: list[Memory]) -> None:
        """Work out what the comparison with an operator needs."""
        if self.operator is None:
            return
        self.operands = tuple([
            (x.storage if x.__class__ is Value and is_owner(x, memory[x.storage]) else None, x)
            for x in self.event.args
        ])
        self.returns_several, parts = self.event.form
        results = self.event.results
        simple = (
            not self.returns_several and len(results) == len(self.allocated) == 1 and not parts[0]
            and results[0] is not None and results[0].storage == self.allocated[0]
            and self.operator.kind is not Kind.VIEW and self.operator.result_type is None
        )
        if not simple:
            self.results = tuple(zip(results, parts, strict=True))


def is_whole(value: Value, memory: Memory) -> bool:
    """Whether a window covers all of its storage."""
    whole = memory.whole
    return (value.offset == 0 and value.shape == whole.shape and value.strides == whole.strides
            and value.dtype == whole.dtype)


def is_owner(value: Value, memory: Memory) -> bool:
    """Whether the array that owns a storage is expected where this window is.

    An input begins at its first use, which may lie in the middle of the recorded owner.
    """
    return is_whole(value, memory) and (memory.kind != INPUT or value == memory.first)


END = Entry(Event("end"))  # sentinel behind the last entry


@dataclass(eq=False)
class Exit:
    """A point where a segment may end.

    closed: why no more segments are recorded from here.
    varies: the operator, or CONSTANT, with which calls go on here with a new number in each call.
    grows: whether segments that differ in a length may become one.
    fresh: how many calls are still to be recorded from here, whatever segments there are.
    census: who held the memory of the segment that ends here, the last time, when `walked` backward
        passes were one event.
    """

    segments: list[Segment] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    failures: int = 0
    closed: str = ""
    varies: Any = None
    grows: bool = True
    fresh: int = 0
    pending: bool = False  # whether a program is being built
    census: HolderCensus | None = None
    walked: int = 0


class Segment:
    """A list of events, the storages that they work on, and the exits between them."""

    def __init__(self, events: Sequence[Event], memory: list[Memory], modes: tuple,
                 silent: set[str], calls: dict[int, list[Any]]) -> None:
        """`silent`: operators that returned windows on their operands. `calls`: composite functions
        with their plain arguments, by the event before which they ran."""
        self.entries = [Entry(event) for event in events]
        self.memory, self.modes, self.silent = memory, modes, silent
        self.count = len(self.entries)
        self.exits: dict[int, Exit] = {}
        self.problem = ""  # why it has no program
        self.stable_ids = {id(m.owner) for m in memory if m.kind == STABLE}
        self.owners = [m.owner if m.kind == STABLE else None for m in memory]
        self.cue: Any = None  # the first of its inline caches
        self.recycled = RecycledMemory([(m.whole.shape, m.whole.strides, m.whole.dtype)
                                        for m in memory])
        self.last_call = 0  # the last call of the function that followed it
        self.misses = self.notes = 0  # of inline caches, and how often these were written
        self.calls = calls
        self.backwards: dict[int, BackwardPass] = {}  # by their first events
        self.group_updates: set[int] = set()  # events that are an optimizer's step over a group
        self._find_origins()
        self.written_ids = {id(m.owner) for m in memory if m.kind == STABLE and m.written}
        for entry in self.entries:
            entry.prepare(memory)
        # For each storage that the segment allocates: (storage, event where it begins, event that
        # first computes it).
        self.births = [
            (s, i, computed) for i, entry in enumerate(self.entries) for s in entry.allocated
            if (computed := memory[s].computed) is not None
        ]

    def adapt(self, at: int, bound: tuple) -> bool:
        """Whether the list changed to be that of an operator's operands at an event: of a call of
        another length."""
        return False

    def is_fixed(self, at: int, owners: Any, arguments: Any) -> bool:
        """Whether an event, and a function before it with these arguments, are the same in all
        calls that follow the segment."""
        return True

    def choose_ready(self) -> None:
        """Have calls begin with the memory that nobody holds when a call ends, of what operators
        make and of what is reserved for them.

        Not that of backward passes: as one event, these make nothing but grads.
        """
        if not self.has_one_length:
            return
        inside = {i for p in self.backwards.values() for i in range(p.start, p.end)}
        survivors = [p.survivors for exit in self.exits.values() for p in exit.programs]
        self.recycled.choose_ready(frozenset(
            s for i, entry in enumerate(self.entries)
            if entry.kind in (OPERATOR, EMPTY) and i not in inside
            for s in entry.allocated).difference(*survivors))
        self.recycled.refresh()

    has_one_length = True  # whether its memory is laid out alike in all calls
    takes_constants = False  # whether constants that are not listed are memory from outside

    @property
    def is_ready(self) -> bool:
        """Whether a program covers the whole segment."""
        return bool(self.exit(self.count).programs)

    def exit(self, at: int) -> Exit:
        """The exit before an event."""
        known = self.exits.get(at)
        if known is None:
            known = self.exits[at] = Exit()
        return known

    def _find_origins(self) -> None:
        """Find the event at which each storage begins, and the one that first computes it."""
        seen: set[int] = set()
        for i, entry in enumerate(self.entries):
            event = entry.event
            fresh = []
            for value in values_in((event.results, event.args)):
                memory = self.memory[value.storage]
                if memory.kind == INTERNAL and value.storage not in seen:
                    seen.add(value.storage)
                    fresh.append(value.storage)
            entry.allocated = tuple(fresh)
            for value in written_by(event):
                memory = self.memory[value.storage]
                memory.written = True
                if memory.computed is None:
                    memory.computed = i


def written_by(event: Event) -> list[Value]:
    """The windows whose values an event computes."""
    from ..lowering import writes

    if event.kind in (CONSTANT, EMPTY):
        return []
    if event.kind in (WRITE, DRAW):
        return values_in(event.args[0])
    if event.kind == UPDATE:
        return [value for param, _, states in event.args for value in (param, *values_in(states))]
    result = values_in(event.results)
    if event.kind == OPERATOR:
        result += values_in([event.args[i] for i in writes(event.operator)])
    return result
