"""plan_memory: where in one arena each value lies while it is needed, and where threads must wait.

Values whose lives do not overlap share memory. Neighbouring tasks need no barrier between them when
neither reads or writes what the other writes.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from ...native.loop_ir.ir import Store, statements
from .arena import ALIGNMENT
from ..fusion.placement import Home, Memory
from ..fusion.buffer_assignment import Layout
from .tasks import Task, task_memories

WASTE = 1.25  # how much larger than a value the stretch may be that it is put into


@dataclass
class Plan:
    """The arena's size, each arena memory's offset by id, and after which tasks threads wait."""

    size: int
    offsets: dict[int, int]
    barriers: list[bool]


def plan_memory(tasks: Sequence[Task], layout: Layout) -> Plan:
    """Offsets by first fit at the time of birth; then the barriers."""
    uses = [task_memories(task, layout) for task in tasks]
    last: dict[int, int] = {}
    for k, memories in enumerate(uses):
        for memory in memories:
            last[id(memory)] = k
    arena = _Arena()
    offsets: dict[int, int] = {}
    for k, memories in enumerate(uses):
        for memory in memories:
            if memory.home is Home.ARENA and id(memory) not in offsets:
                offsets[id(memory)] = arena.take(_rounded(memory.bytes))
        for memory in {id(m): m for m in memories}.values():
            if memory.home is Home.ARENA and last[id(memory)] == k:
                arena.give(offsets[id(memory)], _rounded(memory.bytes))
    return Plan(arena.size, offsets, _barriers(tasks, layout, offsets))


def written(task: Task) -> set[int]:
    """The ids of the memories that a kernel writes."""
    assert task.kernel is not None
    stores = {id(s.buffer) for s in statements(task.kernel.body) if isinstance(s, Store)}
    pairs = zip(task.kernel.buffers, task.memories, strict=True)
    return {id(memory) for buffer, memory in pairs if id(buffer) in stores}


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Arena:
    """Free stretches of memory, by offset."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int, int]] = []  # (offset, size, when it was freed)
        self.size = self.clock = 0

    def take(self, size: int) -> int:
        """Of the free stretches that hold `size` without much waste the one freed last, since it
        is still in the caches; else the smallest that does, or more memory at the end."""
        fits = [one for one in self.free if one[1] >= size]
        if fits:
            close = [one for one in fits if one[1] <= size * WASTE]
            best = max(close, key=itemgetter(2)) if close else min(fits, key=itemgetter(1, 0))
            at, n, when = best
            self.free.remove(best)
            if n > size:
                insort(self.free, (at + size, n - size, when))
            return at
        if self.free and sum(self.free[-1][:2]) == self.size:  # grow the last stretch
            at, n, _ = self.free.pop()
            self.size = at + size
            return at
        self.size += size
        return self.size - size

    def give(self, at: int, size: int) -> None:
        """A stretch is free again, and one with its neighbours."""
        self.clock += 1
        place = bisect(self.free, (at,))
        first, last = place, place
        low, high = at, at + size
        if place and sum(self.free[place - 1][:2]) == at:
            first, low = place - 1, self.free[place - 1][0]
        if place < len(self.free) and self.free[place][0] == high:
            last, high = place + 1, sum(self.free[place][:2])
        self.free[first:last] = [(low, high - low, self.clock)]


def _barriers(tasks: Sequence[Task], layout: Layout, offsets: dict[int, int]) -> list[bool]:
    """After which tasks the threads must wait for one another."""
    found = [False] * len(tasks)
    reads: list[tuple] = []
    writes: list[tuple] = []
    for k, task in enumerate(tasks):
        if task.call is not None:
            reads, writes = [], []
            if k:
                found[k - 1] = True
            continue
        stored = written(task)
        spans = [(_span(m, offsets), id(m) in stored) for m in task.memories]
        mine = [span for span, store in spans if store]
        clash = any(_meet(s, w) for s, _ in spans for w in writes) or any(
            _meet(s, r) for s in mine for r in reads
        )
        if clash:
            found[k - 1] = True
            reads, writes = [], []
        writes += mine
        reads += [span for span, store in spans if not store]
    if found:
        found[-1] = True
    return found


def _span(memory: Memory, offsets: dict[int, int]) -> tuple:
    if memory.home is Home.ARENA:
        start = offsets[id(memory)]
        return (Home.ARENA, 0, start, start + memory.bytes)
    return (memory.home, memory.index if memory.home is not Home.CONSTANT else id(memory), 0, 1)


def _meet(a: tuple, b: tuple) -> bool:
    return a[0] is b[0] and a[1] == b[1] and a[2] < b[3] and b[2] < a[3]
