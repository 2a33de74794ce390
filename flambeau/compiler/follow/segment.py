"""Segment: the events between two points of a call at which all values are computed.

Segments form a graph. A segment ends when Python reads a value, when the call differs from the next
event, or when the call ends. That point is an `Exit`, which holds the segments that continued from
it in earlier calls. If one does what another segment of the function does, as in each turn of a
loop, both are one, so a loop of any length has the programs of its body.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ops.core.operator import Kind
from ..trace.trace import (
    CONSTANT, DRAW, EMPTY, OPERATOR, UPDATE, WRITE, Event, Value, collect_values, compare_events,
)
from .holder_census import HolderCensus
from .memory_layout import RecycledMemory

if TYPE_CHECKING:
    from .backward_pass import BackwardPass
    from .following import Following


# Kinds of storage: allocated by the segment; the same in every call; different in every call.
INTERNAL, STABLE, INPUT = range(3)


@dataclass(eq=False)
class Memory:
    """A storage of a segment.

    owner: the owning array, for stable memory.
    first: the window of the first use, for inputs.
    computed: the first event that computes values in it.
    """

    kind: int
    whole: Value
    owner: np.ndarray | None = None
    first: Value | None = None
    computed: int | None = None
    written: bool = False


class Program(Protocol):
    """A compiled program of a segment's first events, for fixed shapes or a growing length.

    survivors: the storages that outlive the segment.
    calls: the number of runs.
    """

    calls: int
    survivors: frozenset[int]

    @property
    def segment(self) -> Segment:
        """The segment that the program computes."""

    def may_run_alone(self) -> bool:
        """Whether it agreed with eager execution often enough to run unchecked."""

    def run(self, following: Following) -> bool:
        """Compute the call's values. Return False if it cannot; a replay then computes them."""

    def verify(self, following: Following, replay: Callable[[], None]) -> str | None:
        """Compute with the program and eagerly. Return the name of what differs, or None."""

    def note_agreement(self) -> None:
        """Count a call in which the program agreed."""


class Entry:
    """An event, prepared for comparison with a call.

    operands: (storage, expected value) of each parameter of an operator; the storage is None unless
        a tensor that covers all of it is expected.
    results: (window, whether it is only part of its owner) of each result; None for the common case
        of one tensor on new memory.
    allocated: the storages first used here.
    number: the array of a constant with one element and no axes, on new memory.
    is_wrapped: whether this is a constant that library code passes to an operator, such as the
        value of masked_fill: no call that creates it is listed.
    """

    __slots__ = (
        "allocated", "buffer", "event", "is_wrapped", "kind", "number", "operands", "operator",
        "results", "returns_several", "update",
    )

    def __init__(self, event: Event) -> None:
        self.event, self.kind, self.operator = event, event.kind, event.operator
        self.allocated: tuple[int, ...] = ()
        self.buffer: Any = None  # of a draw
        maker = getattr(event.function, "__name__", "")
        self.is_wrapped = event.kind == CONSTANT and maker == "wrap"
        self.number: np.ndarray | None = None
        self.update: Any = None  # of an optimizer's step over a group
        self.operands: tuple[tuple[int | None, Any], ...] = ()
        self.results: tuple[tuple[Value | None, bool], ...] | None = None
        self.returns_several = False

    def prepare(self, memory: list[Memory]) -> None:
        """Precompute what the comparison with a call needs."""
        if self.kind == CONSTANT and len(self.allocated) == 1 and self.event.array is not None:
            array = np.asarray(self.event.array)
            if not array.shape and is_whole(self.event.results[0], memory[self.allocated[0]]):
                self.number = array
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
    geometry = memory.whole
    return (value.offset == 0 and value.shape == geometry.shape
            and value.strides == geometry.strides
            and value.dtype == geometry.dtype)


def is_owner(value: Value, memory: Memory) -> bool:
    """Whether a tensor with this window uses the array that owns the storage.

    An input starts at its first use, which may be in the middle of the recorded owner.
    """
    return is_whole(value, memory) and (memory.kind != INPUT or value == memory.first)


END = Entry(Event("end"))  # sentinel after the last entry


@dataclass(eq=False)
class Exit:
    """A point where a segment may end.

    closed: why no more segments are recorded from here; empty if they are.
    varies: the next operator, or CONSTANT, if it takes a different number in each call.
    grows: whether segments that differ in a length may be merged.
    fresh: the number of calls still to be recorded from here, regardless of existing segments.
    idle: composite functions that recorded no event here, with the classes of their arguments:
        `x.cpu()` of a tensor that is there already. They begin no recording.
    census: the last holders of the memory of the segment that ends here, when `walked` backward
        passes were followed as one event.
    """

    segments: list[Segment] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    failures: int = 0
    closed: str = ""
    varies: Any = None
    grows: bool = True
    fresh: int = 0
    pending: bool = False  # a program is being built
    idle: set[Any] = field(default_factory=set)
    census: HolderCensus | None = None
    walked: int = 0


class Segment:
    """A list of events, the storages they use, and the exits between them."""

    def __init__(self, events: Sequence[Event], memory: list[Memory], modes: tuple,
                 silent: set[str], calls: dict[int, list[Any]]) -> None:
        """`silent`: names of operators that returned windows on their operands. `calls`: composite
        functions with their plain arguments, by the event that they ran before."""
        self.entries = [Entry(event) for event in events]
        self.memory, self.modes, self.silent = memory, modes, silent
        self.count = len(self.entries)
        self.exits: dict[int, Exit] = {}
        self.problem = ""  # why it has no program
        self.stable_ids = {id(m.owner) for m in memory if m.kind == STABLE}
        self.owners = [m.owner if m.kind == STABLE else None for m in memory]
        self.cue: Any = None  # its first inline cache
        self.recycled = RecycledMemory([(m.whole.shape, m.whole.strides, m.whole.dtype)
                                        for m in memory])
        self.last_call = 0  # number of the last call that followed it
        self.misses = self.notes = 0  # of inline caches; times they were generated
        self.calls = calls
        self.legal_indices: dict[int, bool] = {}  # by event; answers of has_legal_indices
        self.backwards: dict[int, BackwardPass] = {}  # by first event
        self.group_updates: set[int] = set()  # events that are an optimizer's step over a group
        self._find_origins()
        self.written_ids = {id(m.owner) for m in memory if m.kind == STABLE and m.written}
        for entry in self.entries:
            entry.prepare(memory)
        # (storage, first event that uses it, first event that computes it) of each storage that the
        # segment allocates.
        self.births = [
            (s, i, computed) for i, entry in enumerate(self.entries) for s in entry.allocated
            if (computed := memory[s].computed) is not None
        ]

    def is_alike(self, other: Segment) -> bool:
        """Whether another segment lists the same events on memory of the same kind and layout, so
        that a program of this one serves it."""
        return (self.count == other.count and self.modes == other.modes
                and self.silent == other.silent
                and _drop_first(self.calls) == _drop_first(other.calls)
                and self.backwards.keys() == other.backwards.keys()
                and self.group_updates == other.group_updates
                and len(self.memory) == len(other.memory)
                and all(map(_are_alike, self.memory, other.memory))
                and all(a.event.function is b.event.function and a.event.form == b.event.form
                        and compare_events(a.event, b.event, {}) is None
                        for a, b in zip(self.entries, other.entries, strict=True)))

    def adapt(self, number: int, bound: tuple) -> bool:
        """Adapt the list to another length implied by an event's operands. Return whether it
        changed."""
        return False

    def is_fixed(self, number: int, owners: Any, arguments: Any) -> bool:
        """Whether an event, and a function before it with these arguments, are the same in every
        call that follows the segment."""
        return True

    def choose_ready(self) -> None:
        """Preallocate, for the start of every call, results of operators and empty memory that
        are computed, and that nobody holds after the call.

        Backward passes are left out: followed as one event, they allocate only grads.
        """
        if not self.has_one_length:
            return
        inside = {i for p in self.backwards.values() for i in range(p.start, p.end)}
        survivors = [p.survivors for exit in self.exits.values() for p in exit.programs]
        self.recycled.choose_ready(frozenset(
            s for i, entry in enumerate(self.entries)
            if entry.kind in (OPERATOR, EMPTY) and i not in inside
            for s in entry.allocated if self.memory[s].computed is not None
        ).difference(*survivors))
        self.recycled.refresh()

    def has_legal_indices(self, number: int) -> bool:
        """Whether the indices that an operator validates are those that an operator of the segment
        chose along an axis, such as `topk`, and no larger axis than they are legal for."""
        if number not in self.legal_indices:
            self.legal_indices[number] = self._prove_indices(number)
        return self.legal_indices[number]

    def _prove_indices(self, number: int) -> bool:
        event = self.entries[number].event
        if event.operator is None or event.operator.values is None or not self.has_one_length:
            return False
        rule = event.operator.values
        bounds = {id(index): size for index, size in rule.bounds(*event.args)}
        indices = collect_values([event.args[event.operator.names.index(name)]
                                  for name in rule.parameters])
        return rule.holds is not None and all(
            self._bound_indices(index) <= bounds.get(id(index), -1) for index in indices)

    def _bound_indices(self, index: Value) -> float:
        """Return the size that all values of an index lie below, or infinity."""
        writers = [entry.event for entry in self.entries
                   if any(value.storage == index.storage for value in find_written(entry.event))]
        if len(writers) != 1 or writers[0].kind != OPERATOR:
            return math.inf
        event = writers[0]
        operator, input, whole = event.operator, event.args[0], self.memory[index.storage].whole
        chosen = None if operator.index_output is None else event.results[operator.index_output]
        if chosen is None or chosen.storage != index.storage or chosen.dtype != index.dtype \
                or math.prod(chosen.shape) != math.prod(whole.shape):
            return math.inf
        dim = event.args[operator.names.index("dim")]
        return math.prod(input.shape) if dim is None or not input.shape else input.shape[dim]

    has_one_length = True  # whether its memory has the same layout in all calls
    takes_constants = False  # whether unlisted constants count as outside memory

    @property
    def is_ready(self) -> bool:
        """Whether a program covers the whole segment."""
        return bool(self.exit(self.count).programs)

    def exit(self, number: int) -> Exit:
        """Return the exit before an event, creating it if needed."""
        known = self.exits.get(number)
        if known is None:
            known = self.exits[number] = Exit()
        return known

    def _find_origins(self) -> None:
        """Find the first event that uses each storage, and the first that computes it."""
        seen: set[int] = set()
        for i, entry in enumerate(self.entries):
            event = entry.event
            fresh = []
            for value in collect_values((event.results, event.args)):
                memory = self.memory[value.storage]
                if memory.kind == INTERNAL and value.storage not in seen:
                    seen.add(value.storage)
                    fresh.append(value.storage)
            entry.allocated = tuple(fresh)
            for value in find_written(event):
                memory = self.memory[value.storage]
                memory.written = True
                if memory.computed is None:
                    memory.computed = i


def iterate_exits(root: Exit) -> Iterator[Exit]:
    """Yield the exits of a whole graph, each once."""
    exits, met = [root], {id(root)}
    for exit in exits:
        yield exit
        for segment in exit.segments:
            new = [e for e in segment.exits.values() if id(e) not in met]
            met.update(map(id, new))
            exits += new


def find_twin(root: Exit, segment: Segment, exit: Exit) -> Segment | None:
    """Return a segment with a program that does what a new one from `exit` does, or None."""
    for other in (s for e in iterate_exits(root) for s in e.segments):
        if other.is_ready and other.has_one_length and other not in exit.segments \
                and other.is_alike(segment):
            return other
    return None


def _drop_first(calls: dict[int, list[Any]]) -> dict[int, list[Any]]:
    """Return the composite functions that began after the first event."""
    return {number: listed for number, listed in calls.items() if number}


def _are_alike(a: Memory, b: Memory) -> bool:
    """Whether two storages are of one kind and layout, and the same memory if it is stable."""
    return (a.kind == b.kind and a.whole == b.whole and a.owner is b.owner
            and a.first == b.first and a.computed == b.computed and a.written == b.written)


def find_written(event: Event) -> list[Value]:
    """Return the windows whose values an event computes."""
    from ..lowering import writes

    if event.kind in (CONSTANT, EMPTY):
        return []
    if event.kind in (WRITE, DRAW):
        return collect_values(event.args[0])
    if event.kind == UPDATE:
        return [value for param, _,
                states in event.args for value in (param, *collect_values(states))]
    result = collect_values(event.results)
    if event.kind == OPERATOR:
        result += collect_values([event.args[i] for i in writes(event.operator)])
    return result
