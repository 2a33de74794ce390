"""ProgramTable: a planned program as plain data, stored on disk under a hash of its graph.

A process that records a step compiled before skips optimization and planning: the table names the
kernels and the memory they run on. `explain()` plans again from the stored graph.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ...native.foundation import disk_cache
from ...native.loop_ir.ir import Type
from ...native.loop_ir.numpy_forms import dtype_of
from ...native.runtime.thread_pool import threads
from ...native.runtime.thread_pool_ir import BARRIER, SERIAL
from ...native.target.machine import host, llvm_version
from ..fusion.placement import Home
from ..ir.graph import Graph, Op
from ..ir.serialization import serialize_graph
from ..ir.source_hashes import hash_compiler_sources

if TYPE_CHECKING:
    from ..fusion.buffer_assignment import BufferAssignment
    from .memory_plan import MemoryPlan
    from .tasks import Task

_VERSION = 3


@dataclass
class TableEntry:
    """A task: the name of its machine code, launch flags, and the addresses of its buffers. A check
    has no code, and one buffer.

    A cell is (home, number, bytes): a byte offset into a slot, an output or a constant with that
    number, or into the arena.
    """

    code: str
    flags: int
    cells: list[tuple[Home, int, int]]
    call: Task | None = None

    @property
    def is_check(self) -> bool:
        """Whether the task checks a bool, and stops the run if it is False."""
        return not self.code and self.call is None


@dataclass
class ProgramTable:
    """Everything a program needs besides its graph's sources and outputs.

    `size`: of the arena, in bytes. `graph`: the serialized graph, only on disk.
    """

    entries: list[TableEntry]
    constants: list[np.ndarray]
    size: int
    work: int
    graph: bytes = b""

    @property
    def codes(self) -> list[str]:
        """The names of the kernels' code."""
        return [entry.code for entry in self.entries if entry.code]

    def list_addresses(self, known: Mapping[str, int]) -> list[int]:
        """The address of each entry's code, given addresses by name; 0 for entries without code."""
        return [known[entry.code] if entry.code else 0 for entry in self.entries]


def make_table(
    tasks: Sequence[Task], layout: BufferAssignment, plan: MemoryPlan, codes: Sequence[str]
) -> ProgramTable:
    """Build the table of planned tasks. `codes`: the name of each task's code, empty for calls."""
    constants: dict[int, tuple[int, np.ndarray]] = {}
    entries = []
    for task, barrier, code in zip(tasks, plan.barriers, codes, strict=True):
        buffers = list(zip(task.memories, task.offsets, strict=True))
        if task.call is not None and task.call.op is Op.CHECK:
            place = layout.locate(task.call.inputs[0])
            buffers = [(place.memory, place.window.offset)]
        elif task.call is not None:
            entries.append(TableEntry("", 0, [], task))
            continue
        cells = []
        for memory, start in buffers:
            number, offset = memory.index, start * memory.type.size
            if memory.home is Home.ARENA:
                number, offset = 0, offset + plan.offsets[id(memory)]
            elif memory.home is Home.CONSTANT:
                array = np.ascontiguousarray(memory.value, dtype_of(memory.type))
                number, _ = constants.setdefault(id(memory), (len(constants), array))
            cells.append((memory.home, number, offset))
        flags = (BARRIER if barrier else 0) | (SERIAL if task.serial else 0)
        entries.append(TableEntry(code, flags, cells))
    arrays = [array for _, array in constants.values()]
    return ProgramTable(entries, arrays, plan.size, sum(task.work for task in tasks))


# ------------------------------------------------------------------------------- on disk


class _UnstableGraphError(Exception):
    """A graph contains a value that cannot be identified in another process."""


def make_key(graph: Graph, stages: Sequence[Callable]) -> str | None:
    """Return the disk key of a graph's table; None if the graph cannot be identified across
    processes.

    It covers everything planning depends on: the graph, the passes, the compiler's sources, the
    processor and the number of threads.
    """
    sources = hash_compiler_sources()
    if sources is None:
        return None
    try:
        text = "\n".join(_write_graph(graph))
    except _UnstableGraphError:
        return None
    target = host()
    names = " ".join(f"{stage.__module__}.{stage.__qualname__}" for stage in stages)
    return disk_cache.make_key("table", str(_VERSION), llvm_version(), target.triple, target.cpu,
                               target.features, sources, names, str(threads()), text)


def _write_graph(graph: Graph) -> list[str]:
    """A graph as text: equal for graphs that perform the same operations in the same order."""
    lines = [f"{s.kind.value} {s.name} {s.shape} {s.type.value} {s.strides}" for s in graph.sources]
    numbers: dict[int, int] = {}
    for node in graph.nodes():
        numbers[id(node)] = len(numbers)
        inputs = [numbers[id(a)] for a in node.inputs]
        pairs = " ".join(f"{k}={_write_stably(v)}" for k, v in sorted(node.attributes.items()))
        lines.append(f"{node.op.name} {inputs} {node.shape} {node.type.value} {pairs}")
    lines.append(f"{[numbers[id(node)] for node in graph.outputs]}")
    lines.append(f"{[(slot, numbers[id(node)]) for slot, node in graph.writes]}")
    return lines


def _write_stably(value: Any) -> str:
    kind = value.__class__
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        return repr(value)
    if kind in (tuple, list):
        return f"({','.join(map(_write_stably, value))})"
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcV":
        data = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype}{value.shape}{hashlib.sha256(data).hexdigest()}"
    if isinstance(value, np.generic):
        return f"{value.dtype}{value.tobytes().hex()}"
    raise _UnstableGraphError(kind)


def load_table(key: str) -> ProgramTable | None:
    """Load the table under a key; None if there is none."""
    data = disk_cache.get(key)
    return None if data is None else _deserialize(data)


def store_table(key: str, table: ProgramTable, graph: Graph) -> bool:
    """Store a table and its graph. Return False, without storing, if it calls eager functions."""
    if any(entry.call is not None for entry in table.entries):
        return False
    disk_cache.store(key, _serialize(replace(table, graph=serialize_graph(graph))))
    return True


def _serialize(table: ProgramTable) -> bytes:
    entries = [[e.code, e.flags, [[h.name, n, at] for h, n, at in e.cells]] for e in table.entries]
    types = {dtype_of(type): type.value for type in Type}
    constants = [[types[a.dtype], list(a.shape)] for a in table.constants]
    head = json.dumps([entries, constants, table.size, table.work], separators=(",", ":"))
    body = b"".join(a.tobytes() for a in table.constants)
    return b"\n".join([head.encode(), body + table.graph])


def _deserialize(data: bytes) -> ProgramTable:
    head, _, body = data.partition(b"\n")
    rows, constants, size, work = json.loads(head)
    entries = [TableEntry(code, flags, [(Home[h], n, at) for h, n, at in cells])
               for code, flags, cells in rows]
    arrays, offset = [], 0
    for kind, shape in constants:
        empty = np.empty(shape, dtype_of(Type(kind)))
        array = np.frombuffer(body, empty.dtype, empty.size, offset) if empty.size else empty
        arrays.append(array.reshape(shape).copy())
        offset += empty.nbytes
    return ProgramTable(entries, arrays, size, work, body[offset:])
