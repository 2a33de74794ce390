"""Step: a graph as a native program, with its working memory.

A program is split at each eager function call and at each check that may end the run. Addresses of
parameters and states are written into it once; those of arguments and outputs are passed per call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...native.foundation.allocator import build_memory_error
from ...native.loop_ir.ir import Type
from ...native.loop_ir.numpy_forms import dtype_of
from ...native.runtime.launch_table import LaunchTable, Patch, Record
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import MIN_PARALLEL_WORK
from ...native.target.load_balance import TYPICAL_THREADS
from ..fusion.placement import Home
from ..ir.errors import CheckFailed
from ..ir.exchange import EXCHANGE_TURN, REFUSALS, fail_check
from ..ir.graph import Graph, Node, SourceKind
from ..schedule.arena import Arena
from ..schedule.program_table import ProgramTable
from .eager_calls import EagerCalls

if TYPE_CHECKING:
    from ..schedule.memory_plan import MemoryPlan
    from ..fusion.buffer_assignment import BufferAssignment
    from ..schedule.tasks import Task

Planned: TypeAlias = "tuple[Graph, list[Task], BufferAssignment, MemoryPlan]"
WORK_PER_EXTRA_THREAD = MIN_PARALLEL_WORK // 2  # per thread beyond the first few


@dataclass
class Call:
    """An eager function between two parts of a program."""

    node: Node
    task: Task


@dataclass
class Check:
    """A bool between two parts of a program: at `address`, or that many bytes into a slot."""

    slot: int | None
    address: int

    def require(self, table: list[np.ndarray]) -> None:
        """Raise CheckFailed if the bool is False. `table`: the arrays of the slots."""
        address = self.address
        if self.slot is not None:
            address += table[self.slot].ctypes.data
        if not ctypes.c_bool.from_address(address).value:
            raise CheckFailed


class Step:
    """A compiled graph. `changing`: the slots whose values `run` takes, in order."""

    def __init__(
        self, graph: Graph, table: ProgramTable, addresses: Sequence[int],
        plan: Callable[[], Planned], arena: Arena | None = None, key: str | None = None,
    ) -> None:
        """`addresses`: each entry's machine code; 0 for eager calls. `plan` returns the planned
        graph. `arena`: memory that may be reused. `key`: the table's key on disk."""
        self.edges, self.table, self._plan, self.key = graph, table, plan, key
        sources = graph.sources
        self.changing = [k for k, s in enumerate(sources) if s.kind is not SourceKind.STATE]
        self._numbers = [k for k in self.changing if sources[k].kind is SourceKind.NUMBER]
        self._arrays = [k for k in self.changing if sources[k].kind is not SourceKind.NUMBER]
        self.states = {k: s.array() for k, s in enumerate(sources) if s.kind is SourceKind.STATE}
        self.cells = {k: np.zeros((), dtype_of(sources[k].type)) for k in self._numbers}
        together = np.zeros(max(len(self._numbers), 1))  # float64 numbers are written at once
        if all(sources[k].type is Type.F64 for k in self._numbers):
            self.cells = {k: together[i, ...] for i, k in enumerate(self._numbers)}
        self._packed_numbers = together
        if arena is None or arena.size != table.size:
            arena = Arena(table.size)
        self.arena, self._base, self.size = arena.array, arena.base, arena.size
        self._slots = {k: i for i, k in enumerate(self._arrays)}
        self._first_output = len(self._arrays)
        self._kinds = [(n.shape, dtype_of(n.type)) for n in graph.outputs]
        self.parts: list[LaunchTable | Check | Call] = []
        self.addresses = list(addresses)
        self._build(addresses)
        programs = [part for part in self.parts if isinstance(part, LaunchTable)]
        # Run count of the part that writes states; tells interrupt handlers whether it ran. If a
        # check or an eager function comes last, nothing is written.
        may_end = self.parts[-1] if self.parts else None
        writes_nothing = isinstance(may_end, Check) or (
            isinstance(may_end, Call) and EXCHANGE_TURN not in may_end.node.attributes)
        self.ran = programs[-1].ran if programs and not writes_nothing else [0]
        self.threads = 1 if table.work < MIN_PARALLEL_WORK else 0  # 0: decided by `count`
        self._max_threads = max(TYPICAL_THREADS, table.work // WORK_PER_EXTRA_THREAD)
        self.calls = EagerCalls(self)
        if self.is_direct:
            setattr(self, "run", self._create_direct_run())  # noqa: B010  # shadows the method

    # ---------------------------------------------------------------------------- building

    def _build(self, addresses: Sequence[int]) -> None:
        records: list[Record] = []
        patches: list[Patch] = []
        for entry, function in zip(self.table.entries, addresses, strict=True):
            if entry.call is not None and entry.call.call is not None:
                self._end(records, patches)
                records, patches = [], []
                self.parts.append(Call(entry.call.call, entry.call))
                continue
            if entry.is_check:
                self._end(records, patches)
                records, patches = [], []
                ((home, number, offset),) = entry.cells
                slot = self._find_slot(home, number)
                fixed = self._find_address(home, number) if slot is None else 0
                self.parts.append(Check(slot, fixed + offset))
                continue
            cells: list[int] = []
            for home, number, offset in entry.cells:
                slot = self._find_slot(home, number)
                if slot is not None:
                    patches.append(Patch(len(records), len(cells), slot, offset))
                cells.append(0 if slot is not None else self._find_address(home, number) + offset)
            records.append(Record(function, cells, entry.flags))
        self._end(records, patches)

    def _end(self, records: list[Record], patches: list[Patch]) -> None:
        if records:
            slots = len(self._arrays) + len(self.edges.outputs)
            self.parts.append(LaunchTable(records, patches, slots, keep=self))

    def move(self, slot: int, array: np.ndarray) -> None:
        """Move a state to other memory."""
        self.states[slot] = array
        programs = (part for part in self.parts if isinstance(part, LaunchTable))
        program, start = None, 0
        for entry in self.table.entries:
            if not entry.code:
                program = None
                continue
            if program is None:
                program, start = next(programs), 0
            for home, number, offset in entry.cells:
                if home is Home.SOURCE and number == slot:
                    program.point(start, int(array.ctypes.data) + offset)
                start += 1

    def _find_slot(self, home: Home, number: int) -> int | None:
        """Return the table index of an address that changes between calls, or None."""
        if home is Home.OUTPUT:
            return self._first_output + number
        return self._slots.get(number) if home is Home.SOURCE else None

    def _find_address(self, home: Home, number: int) -> int:
        if home is Home.ARENA:
            return self._base
        if home is Home.CONSTANT:
            return int(self.table.constants[number].ctypes.data)
        stored = self.cells.get(number)
        return int((self.states[number] if stored is None else stored).ctypes.data)

    # ------------------------------------------------------------------- how it was planned

    @cached_property
    def planned(self) -> Planned:
        """The optimized graph, tasks, layout and memory plan; recomputed if loaded from disk."""
        return self._plan()

    @property
    def graph(self) -> Graph:
        """The graph from which kernels were made."""
        return self.planned[0]

    @property
    def tasks(self) -> list[Task]:
        """The kernels and calls."""
        return self.planned[1]

    @property
    def layout(self) -> BufferAssignment:
        """The buffer of each value."""
        return self.planned[2]

    @property
    def plan(self) -> MemoryPlan:
        """The offsets in the arena, and the points where threads wait."""
        return self.planned[3]

    # ----------------------------------------------------------------------------- running

    def count(self) -> int:
        """The number of threads to run on, limited by the amount of work."""
        return self.threads or min(self._max_threads, threads())

    def run(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Run the step once and return its outputs as new arrays.

        `values`: arrays or numbers for the slots in `changing`; arrays match their sources' shapes,
        dtypes and strides. Raises CheckFailed, before any source is written, if a check fails.
        """
        return self.run_parts(values, lambda part, table: part.run(table, self.count()))

    def run_into(self, values: Sequence[Any], outputs: list[np.ndarray]) -> None:
        """Run the step once and write its outputs to the given contiguous arrays."""
        if not self.is_direct:
            self.run_parts(values, lambda part, table: part.run(table, self.count()), None, outputs)
            return
        numbers, arrays, pack = self._selectors
        pack(self._packed_numbers.data, 0, *numbers(values))
        self.parts[0].run([*arrays(values), *outputs], self.count())  # type: ignore[union-attr]

    @cached_property
    def _selectors(self) -> tuple[Callable, Callable, Callable]:
        """Selectors for numbers and arrays among the values, and a packer for the numbers."""
        return (_make_selector(self.changing, self._numbers),
                _make_selector(self.changing, self._arrays),
                struct.Struct(f"={len(self._numbers)}d").pack_into)

    @cached_property
    def is_direct(self) -> bool:
        """Whether a call runs a single launch table, without lookups."""
        cells = [cell.base is self._packed_numbers for cell in self.cells.values()]
        return len(self.parts) == 1 and isinstance(self.parts[0], LaunchTable) and all(cells)

    def _create_direct_run(self) -> Callable[[Sequence[Any]], list[np.ndarray]]:
        """Return a minimal `run` for steps of one program: overhead dominates small steps."""
        part, kinds, together = self.parts[0], self._kinds, self._packed_numbers.data
        assert isinstance(part, LaunchTable)
        numbers, arrays, pack = self._selectors
        start, empty, count = part.run, np.empty, len(self.changing)
        max_threads = self._max_threads

        def run(values: Sequence[Any]) -> list[np.ndarray]:
            if len(values) != count:
                raise ValueError(f"the step takes {count} values, not {len(values)}")
            try:
                outputs = [empty(shape, dtype) for shape, dtype in kinds]
            except MemoryError:
                raise self._create_memory_error() from None
            pack(together, 0, *numbers(values))
            start([*arrays(values), *outputs], self.threads or min(max_threads, threads()))
            return outputs

        return run

    def run_parts(
        self, values: Sequence[Any], start: Callable[[LaunchTable, list[np.ndarray]], None],
        call: Callable[..., None] | None = None, outputs: list[np.ndarray] | None = None,
        check: Callable[[Check, list[np.ndarray]], None] = Check.require,
    ) -> list[np.ndarray]:
        """Run the parts in order: `start` each launch table, `call` each eager function, `check`
        each check."""
        if outputs is None:
            try:
                outputs = [np.empty(shape, dtype) for shape, dtype in self._kinds]
            except MemoryError:
                raise self._create_memory_error() from None
        inputs = dict(zip(self.changing, values, strict=True))
        for slot, cell in self.cells.items():
            cell[()] = inputs[slot]
        self.calls.forget()  # of an interrupted run
        table = [*[inputs[k] for k in self._arrays], *outputs]
        for part in self.parts:
            if isinstance(part, LaunchTable):
                start(part, table)
            elif isinstance(part, Check):
                check(part, table)
            else:
                try:
                    (call or self.calls.run)(part.node, inputs, outputs)
                except REFUSALS as error:
                    fail_check(part.node, error)
        self.calls.forget()
        return outputs

    def _create_memory_error(self) -> MemoryError:
        size = sum(prod(shape) * dtype.itemsize for shape, dtype in self._kinds)
        return build_memory_error(size, "what a compiled step returns")

    @contextmanager
    def restoring_writes(self, values: Sequence[Any]) -> Iterator[None]:
        """Allow runs inside the block; undo their writes to states and arguments at the end."""
        inputs = dict(zip(self.changing, values, strict=True))
        arrays = [self.states.get(slot, inputs.get(slot)) for slot, _ in self.edges.writes]
        before = [(array, array.copy()) for array in arrays if array is not None]
        try:
            yield
        finally:
            for array, value in before:
                array[...] = value


def _make_selector(
    slots: Sequence[int], selected: Sequence[int]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a fast function that selects the values of some slots."""
    slot_numbers = [slots.index(k) for k in selected]
    if len(slot_numbers) < 2 or slot_numbers == [*range(slot_numbers[0], slot_numbers[-1] + 1)]:
        return itemgetter(slice(slot_numbers[0], slot_numbers[-1] + 1)
                          if slot_numbers else slice(0, 0))
    return itemgetter(*slot_numbers)
