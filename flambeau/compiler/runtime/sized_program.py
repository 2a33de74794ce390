"""SizedProgram: one native program for all lengths of a step.

Its kernels take extents and strides as arguments. The arena is planned for a length with room to
grow, and replanned (about a millisecond) when a step exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...native.foundation.generated_code import SourceBuilder
from ...native.jit.kernel_function import compile_all
from ...native.loop_ir.numpy_forms import dtype_of
from ...native.runtime.fast_call import data_address
from ...native.runtime.launch_table import LaunchTable, Patch, Record
from ...native.runtime.thread_pool import threads
from ...native.runtime.thread_pool_ir import BARRIER, SERIAL
from ...native.target.graph_costs import GROWING_MEMORY_RATIO, MIN_PARALLEL_WORK
from ..fusion.placement import Allocation, Home
from ..ir.graph import Graph, SourceKind
from ..schedule.arena import Arena
from ..schedule.memory_plan import plan_memory
from ..schedule.polynomials import Polynomial
from ..schedule.sized_kernels import CommonTasks


class SizedProgram:
    """The tasks that a step has in common at all lengths.

    graph: at any one length. offsets: for each slot in `arguments`, the byte offset of its start
    from the first element of its array.
    """

    def __init__(self, graph: Graph, common: CommonTasks, offsets: Sequence[int | Polynomial],
                 aside: bool) -> None:
        """`aside`: compile beside the caller's program."""
        self.sources, self.common = graph.sources, common
        self.arguments = [k for k, s in enumerate(graph.sources) if s.kind is not SourceKind.STATE]
        self.states = {k: s.array() for k, s in enumerate(graph.sources)
                       if s.kind is SourceKind.STATE}
        self.offsets = offsets
        kernels = [task.kernel for task in common.tasks]
        self.functions = compile_all(kernels, threads=threads(), aside=aside)
        self.planned_length = 0  # the longest step that fits the arena
        self.threads = 1
        self.values: Callable[[int, Sequence[np.ndarray]], tuple]
        self.table: LaunchTable
        self.arena: Arena

    def run(self, length: int, arrays: Sequence[np.ndarray]) -> None:
        """Run the step. `arrays`: the arguments, then the outputs, which are contiguous."""
        if length > self.planned_length:
            self._plan(GROWING_MEMORY_RATIO * length)
        self.table.run(self.values(length, arrays), self.threads)

    def _plan(self, length: int) -> None:
        """Lay out values in an arena for steps up to a length."""
        tasks = self.common.tasks
        for sized in tasks:
            for memory in sized.task.memories:
                size = self.common.elements[id(memory)]
                memory.elements = size if isinstance(size, int) else max(1, size(length))
        plan = plan_memory([sized.task for sized in tasks], None)
        self.arena = Arena(plan.size)
        works = [self.common.work(k, length) for k in range(len(tasks))]
        self.threads = 1 if sum(works) < MIN_PARALLEL_WORK else 0
        self.constants: dict[int, np.ndarray] = {}
        slots = _Slots()
        records, patches = [], []
        for k, (sized, function) in enumerate(zip(tasks, self.functions, strict=True)):
            cells: list[int] = []
            for memory, start in zip(sized.task.memories, sized.starts, strict=True):
                slot, value = self._locate_buffer(memory, start, plan.offsets, slots)
                if slot is not None:
                    patches.append(Patch(k, len(cells), slot))
                cells.append(value)
            for size in sized.sizes:
                patches.append(Patch(k, len(cells), slots.number(size.source())))
                cells.append(0)
            sized.task.work = works[k]
            flags = (BARRIER if plan.barriers[k] else 0) | (SERIAL if sized.task.serial else 0)
            records.append(Record(function.address, cells, flags))
        self.table = LaunchTable(records, patches, len(slots.texts), keep=self)
        self.values = slots.write()
        self.planned_length = length

    def _locate_buffer(self, memory: Allocation, start: int | Polynomial, offsets: dict[int, int],
                       slots: _Slots) -> tuple[int | None, int]:
        """Return (table slot, 0) if a buffer's address varies by call, else (None, address)."""
        home, size = memory.home, memory.type.size
        if home is Home.OUTPUT:
            argument = len(self.arguments) + memory.index
            return slots.number(_write_sum(f"address(arrays[{argument}])", (start, size))), 0
        if home is Home.SOURCE and memory.index not in self.states:
            argument = self.arguments.index(memory.index)
            return slots.number(_write_sum(f"address(arrays[{argument}])", (start, size),
                                           (self.offsets[argument], 1))), 0
        if home is Home.ARENA:
            base = self.arena.base + offsets[id(memory)]
        elif home is Home.CONSTANT:
            array = np.ascontiguousarray(memory.value, dtype_of(memory.type))
            base = int(self.constants.setdefault(id(memory), array).ctypes.data)
        else:
            base = int(self.states[memory.index].ctypes.data)
        if isinstance(start, int):
            return None, base + start * size
        return slots.number(_write_sum(str(base), (start, size))), 0


def _write_sum(first: str, *terms: tuple[int | Polynomial, int]) -> str:
    """Return source that adds lengths, each times a factor, to an address."""
    number = sum(x * factor for x, factor in terms if isinstance(x, int))
    parts = [f"{factor} * {x.source()}" for x, factor in terms if isinstance(x, Polynomial)]
    return " + ".join([first, *parts, *([str(number)] if number else [])])


class _Slots:
    """The values that a table takes per call, as source."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the slot of a value."""
        return self.texts.setdefault(text, len(self.texts))

    def write(self) -> Callable[[int, Sequence[np.ndarray]], tuple]:
        """Return the function that computes all values."""
        source = SourceBuilder({"address": data_address})
        source.add("return (" + "".join(f"{text}, " for text in self.texts) + ")")
        return source.define("values(n, arrays)", "<flambeau sized program>")[1]
