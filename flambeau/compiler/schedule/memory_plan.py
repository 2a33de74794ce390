"""Memory planning: the offset of each value in one arena, and where threads need a barrier.

Values whose lifetimes do not overlap share memory. Two consecutive tasks need no barrier if neither
reads or writes what the other writes.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from ...native.loop_ir.ir import Store, iterate_statements
from ...native.target.graph_costs import MAX_ARENA_WASTE_RATIO
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.placement import Home, Allocation
from .arena import ALIGNMENT
from .tasks import Task, collect_task_memories


@dataclass
class MemoryPlan:
    """The arena's size, each allocation's offset by id, and the tasks that end in a barrier."""

    size: int
    offsets: dict[int, int]
    barriers: list[bool]


def plan_memory(tasks: Sequence[Task], layout: BufferAssignment | None) -> MemoryPlan:
    """Assign offsets in order of first use, then place the barriers. `layout` says what eager
    functions read and write; None if there are none.
    """
    uses = [collect_task_memories(task, layout) for task in tasks]
    last: dict[int, int] = {}
    for k, memories in enumerate(uses):
        for memory in memories:
            last[id(memory)] = k
    arena = _FreeList()
    offsets: dict[int, int] = {}
    for k, memories in enumerate(uses):
        for memory in memories:
            if memory.home is Home.ARENA and id(memory) not in offsets:
                offsets[id(memory)] = arena.allocate(_round_up(memory.bytes))
        for memory in {id(m): m for m in memories}.values():
            if memory.home is Home.ARENA and last[id(memory)] == k:
                arena.free_stretch(offsets[id(memory)], _round_up(memory.bytes))
    return MemoryPlan(arena.size, offsets, _place_barriers(tasks, layout, offsets))


def collect_written_memories(task: Task) -> set[int]:
    """The ids of the allocations that a kernel writes."""
    assert task.kernel is not None
    stores = {id(s.buffer) for s in iterate_statements(task.kernel.body) if isinstance(s, Store)}
    pairs = zip(task.kernel.buffers, task.memories, strict=True)
    return {id(memory) for buffer, memory in pairs if id(buffer) in stores}


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _FreeList:
    """Free blocks of the arena, sorted by offset."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int, int]] = []  # (offset, size, when it was freed)
        self.size = self.clock = 0

    def allocate(self, size: int) -> int:
        """Return the offset of the most recently freed block that fits without much waste, as it is
        still cached; else the smallest that fits; else new memory at the end.
        """
        fits = [item for item in self.free if item[1] >= size]
        if fits:
            close = [fit for fit in fits if fit[1] <= size * MAX_ARENA_WASTE_RATIO]
            best = max(close, key=itemgetter(2)) if close else min(fits, key=itemgetter(1, 0))
            start, n, when = best
            self.free.remove(best)
            if n > size:
                insort(self.free, (start + size, n - size, when))
            return start
        if self.free and sum(self.free[-1][:2]) == self.size:  # grow the last block
            start, n, _ = self.free.pop()
            self.size = start + size
            return start
        self.size += size
        return self.size - size

    def free_stretch(self, start: int, size: int) -> None:
        """Free a block and merge it with its free neighbors."""
        self.clock += 1
        place = bisect(self.free, (start,))
        first, last = place, place
        low, high = start, start + size
        if place and sum(self.free[place - 1][:2]) == start:
            first, low = place - 1, self.free[place - 1][0]
        if place < len(self.free) and self.free[place][0] == high:
            last, high = place + 1, sum(self.free[place][:2])
        self.free[first:last] = [(low, high - low, self.clock)]


def _place_barriers(
    tasks: Sequence[Task], layout: BufferAssignment | None, offsets: dict[int, int]
) -> list[bool]:
    """For each task, whether threads must wait for each other after it."""
    result = [False] * len(tasks)
    reads: list[tuple] = []
    writes: list[tuple] = []
    for k, task in enumerate(tasks):
        if task.call is not None:
            reads, writes = [], []
            if k:
                result[k - 1] = True
            continue
        stored = collect_written_memories(task)
        spans = [(_locate_memory(m, offsets), id(m) in stored) for m in task.memories]
        own_writes = [span for span, store in spans if store]
        clash = any(_overlap(s, w) for s, _ in spans for w in writes) or any(
            _overlap(s, r) for s in own_writes for r in reads
        )
        if clash:
            result[k - 1] = True
            reads, writes = [], []
        writes += own_writes
        reads += [span for span, store in spans if not store]
    if result:
        result[-1] = True
    return result


def _locate_memory(memory: Allocation, offsets: dict[int, int]) -> tuple:
    if memory.home is Home.ARENA:
        start = offsets[id(memory)]
        return (Home.ARENA, 0, start, start + memory.bytes)
    return (memory.home, memory.index if memory.home is not Home.CONSTANT else id(memory), 0, 1)


def _overlap(a: tuple, b: tuple) -> bool:
    return a[0] is b[0] and a[1] == b[1] and a[2] < b[3] and b[2] < a[3]
