"""Segment: a list of events between two points at which all values are computed.

Segments form a tree: where one ends, by a value that Python reads, by another event than the list
has next, or with the call, is an `Exit`, which knows the segments that were seen to follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ops.core.registry import Kind
from .backward_pass import BackwardPass
from .memory_layout import RecycledMemory
from ..trace.trace import CONSTANT, DRAW, EMPTY, OPERATOR, UPDATE, WRITE, Event, Value, values_in

PATHS = 8  # segments that are kept after one exit
PROGRAMS = 4  # programs of one exit, for different tensors that live on
FAILURES = 2  # recordings of one exit that came to nothing

INTERNAL, STABLE, INPUT = range(3)  # what a storage is: made by the segment, fixed, given anew


@dataclass(eq=False)
class Memory:
    """A storage of a segment. `owner`: of stable memory, the array that owns it. `first`: of an
    input, its first use. `computed`: the first event that gives it values."""

    kind: int
    whole: Value
    owner: np.ndarray | None = None
    first: Value | None = None
    computed: int | None = None
    written: bool = False


class Entry:
    """An event as calls compare themselves with it.

    `operands`: for each parameter of an operator (storage, expected): the storage where a tensor
    on all of it is expected. `results`: (window, whether it is a part of an array); None for one
    tensor on memory of its own. `made`: the storages that begin here.
    """

    __slots__ = ("buffer", "event", "kind", "made", "many", "operands", "operator", "results",
                 "update")

    def __init__(self, event: Event) -> None:
        self.event, self.kind, self.operator = event, event.kind, event.operator
        self.made: tuple[int, ...] = ()
        self.buffer: Any = None  # of a draw
        self.update: Any = None  # of an optimizer's step over a group
        self.operands: tuple[tuple[int | None, Any], ...] = ()
        self.results: tuple[tuple[Value | None, bool], ...] | None = None
        self.many = False

    def prepare(self, memory: list[Memory]) -> None:
        """Works out what comparing needs of an operator."""
        if self.operator is None:
            return
        self.operands = tuple([
            (x.storage if x.__class__ is Value and is_owner(x, memory[x.storage]) else None, x)
            for x in self.event.args
        ])
        self.many, parts = self.event.form
        results = self.event.results
        simple = (
            not self.many and len(results) == len(self.made) == 1 and not parts[0]
            and results[0] is not None and results[0].storage == self.made[0]
            and self.operator.kind is not Kind.VIEW and self.operator.result_type is None
        )
        if not simple:
            self.results = tuple(zip(results, parts, strict=True))


def is_whole(value: Value, memory: Memory) -> bool:
    """Whether a window is all of its storage."""
    whole = memory.whole
    return (value.offset == 0 and value.shape == whole.shape and value.strides == whole.strides
            and value.dtype == whole.dtype)


def is_owner(value: Value, memory: Memory) -> bool:
    """Whether the array that owns a storage is where this window is expected. Memory from outside
    begins where its first use says, which may be in the middle of what was recorded."""
    return is_whole(value, memory) and (memory.kind != INPUT or value == memory.first)


END = Entry(Event("end"))  # what stands behind the last entry


@dataclass(eq=False)
class Exit:
    """Where a segment may end. `closed`: why nothing is recorded from here on any more. `varies`:
    the operator, or CONSTANT, with which calls go on from here that has another number in each."""

    segments: list[Segment] = field(default_factory=list)
    programs: list[Any] = field(default_factory=list)
    failures: int = 0
    closed: str = ""
    varies: Any = None
    pending: bool = False  # whether a program is being built


class Segment:
    """Events, the memory that they work on, and the exits."""

    def __init__(self, events: Sequence[Event], memory: list[Memory], modes: tuple,
                 silent: set[str], calls: dict[int, list[Any]]) -> None:
        """`silent`: operators that gave windows on what they took; `calls`: composite functions
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
        self.last_call = 0  # the number of the driver's call that followed it last
        self.misses = self.notes = 0  # of inline caches; how often these were written
        self.calls = calls
        self.backwards: dict[int, BackwardPass] = {}  # by their first events
        self.group_updates: set[int] = set()  # events that are all of a step over a group
        self._find_origins()
        self.written_ids = {id(m.owner) for m in memory if m.kind == STABLE and m.written}
        for entry in self.entries:
            entry.prepare(memory)
        # Of each memory that is made: its storage, the event that begins it, and the one that first
        # computes it.
        self.births = [
            (s, i, computed) for i, entry in enumerate(self.entries) for s in entry.made
            if (computed := memory[s].computed) is not None
        ]

    @property
    def is_ready(self) -> bool:
        """Whether there is a program for its whole length."""
        return bool(self.exit(self.count).programs)

    def exit(self, at: int) -> Exit:
        """The exit before an event."""
        known = self.exits.get(at)
        if known is None:
            known = self.exits[at] = Exit()
        return known

    def _find_origins(self) -> None:
        """Where each storage begins, and where it is first computed."""
        seen: set[int] = set()
        for i, entry in enumerate(self.entries):
            event = entry.event
            fresh = []
            for value in values_in((event.results, event.args)):
                memory = self.memory[value.storage]
                if memory.kind == INTERNAL and value.storage not in seen:
                    seen.add(value.storage)
                    fresh.append(value.storage)
            entry.made = tuple(fresh)
            for value in written_by(event):
                memory = self.memory[value.storage]
                memory.written = True
                if memory.computed is None:
                    memory.computed = i


def written_by(event: Event) -> list[Value]:
    """The windows that an event gives values by computing."""
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
