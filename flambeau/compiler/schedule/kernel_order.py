"""Kernel order: list scheduling that keeps little memory live and reads data while it is cached.

Of the groups that are ready, the one that frees the most memory relative to what it allocates runs
next; ties go to the group that reads the most recent write. If a program communicates with other
processes, whatever the next collective sends is computed first, so that communication overlaps with
computation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..fusion.fusion_group import FusionGroup
from ..fusion.placement import Allocation, Home
from ..ir.exchange import EARLY, EXCHANGE_TURN

# (turn: what the next collective needs first, calls that wait for a collective last; -bytes freed;
# -time of the last write it reads; position)
QueueEntry = tuple[int, int, int, int]


class KernelOrder:
    """A list scheduler; `touched` gives the allocations that a group reads or writes."""

    def __init__(
        self, groups: Sequence[FusionGroup], touched: Callable[[FusionGroup], Iterable[Allocation]]
    ) -> None:
        self.groups = groups
        self.memories = [self._measure_arena(touched(group)) for group in groups]
        self.turns = _exchange_turns(groups)
        self.untouched_by: dict[int, set[int]] = {}  # groups yet to touch a memory, by its id
        for position, memories in enumerate(self.memories):
            for key in memories:
                self.untouched_by.setdefault(key, set()).add(position)
        self.written: dict[int, int] = {}  # by memory: the time it was first touched
        self.heap: list[QueueEntry] = []
        self.entry: dict[int, QueueEntry] = {}  # the entries of the groups that are ready
        self.waiting: dict[int, list[int]] = {}  # by the last group they wait for
        self.missing = (1 << len(groups)) - 1  # bit i: group i has not run yet

    @staticmethod
    def _measure_arena(memories: Iterable[Allocation]) -> dict[int, int]:
        return {id(memory): memory.bytes for memory in memories if memory.home is Home.ARENA}

    def run(self) -> list[FusionGroup]:
        """Return the groups in a legal order."""
        for position in range(len(self.groups)):
            self._enter_when_ready(position)
        result: list[FusionGroup] = []
        while self.heap:
            entry = heapq.heappop(self.heap)
            position = entry[3]
            if self.entry.get(position) != entry:
                continue  # a newer entry replaced it
            del self.entry[position]
            result.append(self.groups[position])
            self.missing ^= 1 << position
            self._mark_run(position, len(result))
            for later in self.waiting.pop(position, ()):
                self._enter_when_ready(later)
        assert len(result) == len(self.groups), "the groups wait for one another in a circle"
        return result

    def _enter_when_ready(self, position: int) -> None:
        last = (self.groups[position].before & self.missing).bit_length() - 1
        if last < 0:
            self._push(position)
        else:
            self.waiting.setdefault(last, []).append(position)

    def _push(self, position: int) -> None:
        freed, time = 0, 0
        for key, size in self.memories[position].items():
            time = max(time, self.written.get(key, 0))
            if key not in self.written:
                freed -= size
            if len(self.untouched_by[key]) == 1:
                freed += size
        entry = self.entry[position] = (self.turns[position], -freed, -time, position)
        heapq.heappush(self.heap, entry)

    def _mark_run(self, position: int, time: int) -> None:
        """Update memories after a group has run: they are now live, or have one user less."""
        for key in self.memories[position]:
            untouched_by = self.untouched_by[key]
            untouched_by.discard(position)
            first = self.written.setdefault(key, time) == time
            if first or len(untouched_by) == 1:
                for other in untouched_by if first else list(untouched_by):
                    if other in self.entry:
                        self._push(other)


def _exchange_turns(groups: Sequence[FusionGroup]) -> list[int]:
    """The turn of each group: negative for everything that a collective's start needs, by start."""
    turns = [0 if group.special is None else group.special.attributes.get(EXCHANGE_TURN, 0)
             for group in groups]
    starts = [position for position, turn in enumerate(turns) if turn == EARLY]
    for index, start in enumerate(starts):
        pending = [start]
        while pending:
            position = pending.pop()
            if turns[position] < 0 and position != start:
                continue  # an earlier start needs it
            turns[position] = index - len(starts)
            pending += _set_bits(groups[position].before)
    return turns


def _set_bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def order_kernels(
    groups: Sequence[FusionGroup], touched: Callable[[FusionGroup], Iterable[Allocation]]
) -> list[FusionGroup]:
    """Return the groups in the order in which they run; see KernelOrder."""
    return KernelOrder(groups, touched).run()
