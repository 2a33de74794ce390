"""Table: a planned program as plain data, kept on disk under what its graph is.

A process that records a step which was compiled before neither plans it again nor makes loops of
it: the table says which kernels run on which memory. Planning is done again when somebody asks why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ...native.foundation import disk_cache
from ...native.foundation.source_hash import hash_sources
from ...native.loop_ir.ir import Type
from ...native.runtime.thread_pool import threads
from ...native.runtime.launch_table import BARRIER, SERIAL
from ...native.target.machine import host, versions
from ..ir.interpreter import numpy_type
from ..ir.graph import Graph
from ..fusion.placement import Home
from ..ir.serialization import packed

if TYPE_CHECKING:
    from .memory_plan import Plan
    from .tasks import Task

_VERSION = 2


@dataclass
class TableEntry:
    """A task: the name of its kernel's code, flags for the program, and where its buffers lie.

    A cell is (home, number, bytes): the number of a slot, an output or a constant; from there, or
    from the arena's beginning, so many bytes.
    """

    code: str
    flags: int
    cells: list[tuple[Home, int, int]]
    call: Task | None = None


@dataclass
class ProgramTable:
    """All that a program needs beside its graph's sources and outputs.

    `size`: of the arena; `graph`: what it was planned from (packed.py), on disk.
    """

    entries: list[TableEntry]
    constants: list[np.ndarray]
    size: int
    work: int
    graph: bytes = b""

    @property
    def codes(self) -> list[str]:
        """The names of all kernels' code."""
        return [entry.code for entry in self.entries if entry.code]


def make_table(tasks: Sequence[Task], plan: Plan, codes: Sequence[str]) -> ProgramTable:
    """The table of planned tasks; `codes`: each one's name, empty for calls."""
    constants: dict[int, tuple[int, np.ndarray]] = {}
    entries = []
    for task, barrier, code in zip(tasks, plan.barriers, codes, strict=True):
        if task.call is not None:
            entries.append(TableEntry("", 0, [], task))
            continue
        cells = []
        for memory, start in zip(task.memories, task.offsets, strict=True):
            number, offset = memory.index, start * memory.type.size
            if memory.home is Home.ARENA:
                number, offset = 0, offset + plan.offsets[id(memory)]
            elif memory.home is Home.CONSTANT:
                array = np.ascontiguousarray(memory.value, numpy_type(memory.type))
                number, _ = constants.setdefault(id(memory), (len(constants), array))
            cells.append((memory.home, number, offset))
        flags = (BARRIER if barrier else 0) | (SERIAL if task.serial else 0)
        entries.append(TableEntry(code, flags, cells))
    arrays = [array for _, array in constants.values()]
    return ProgramTable(entries, arrays, plan.size, sum(task.work for task in tasks))


# ------------------------------------------------------------------------------- on disk


class _Unnamed(Exception):
    """A graph with something in it that has no name which holds in another process."""


def make_key(graph: Graph, stages: Sequence[Callable]) -> str | None:
    """What stands for a graph's table on disk; None for graphs whose tables are not kept.

    In it is all that planning depends on: the graph, its stages and their sources, the processor,
    and how many threads there are.
    """
    made = compiler_sources()
    if made is None:
        return None
    try:
        text = "\n".join(_lines(graph))
    except _Unnamed:
        return None
    target = host()
    names = " ".join(f"{one.__module__}.{one.__qualname__}" for one in stages)
    return disk_cache.key("table", str(_VERSION), versions(), target.triple, target.cpu,
                     target.features, made, names, str(threads()), text)  # fmt: skip


def _lines(graph: Graph) -> list[str]:
    """A graph as text, the same for graphs that compute the same in the same way."""
    lines = [f"{s.kind} {s.name} {s.shape} {s.type.value} {s.strides}" for s in graph.sources]
    numbers: dict[int, int] = {}
    for node in graph.nodes():
        numbers[id(node)] = len(numbers)
        inputs = [numbers[id(one)] for one in node.inputs]
        given = " ".join(f"{k}={_named(v)}" for k, v in sorted(node.attributes.items()))
        lines.append(f"{node.op.name} {inputs} {node.shape} {node.type.value} {given}")
    lines.append(f"{[numbers[id(node)] for node in graph.outputs]}")
    lines.append(f"{[(slot, numbers[id(node)]) for slot, node in graph.writes]}")
    return lines


def _named(value: Any) -> str:
    kind = value.__class__
    if kind in (int, float, bool, str, bytes, complex, type(None)):
        return repr(value)
    if kind in (tuple, list):
        return f"({','.join(map(_named, value))})"
    if isinstance(value, Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcV":
        data = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype}{value.shape}{hashlib.sha256(data).hexdigest()}"
    if isinstance(value, np.generic):
        return f"{value.dtype}{value.tobytes().hex()}"
    raise _Unnamed(kind)


def compiler_sources() -> str | None:
    """A hash of the files of compiler/ and native/; None if one cannot be read."""
    return hash_sources("compiler", "native")


def library_sources() -> str | None:
    """A hash of what graphs are built from: bodies of operators, formulas of optimizers."""
    return hash_sources("ops", "optim", "tensor")


def load_table(key: str) -> ProgramTable | None:
    """The table under a key; None where there is none."""
    data = disk_cache.get(key)
    return None if data is None else _unpacked(data)


def store_table(key: str, table: ProgramTable, graph: Graph) -> bool:
    """Keeps the table of a graph, unless eager functions are called in between; whether it did."""
    if any(entry.call is not None for entry in table.entries):
        return False
    disk_cache.put(key, _packed(replace(table, graph=packed(graph))))
    return True


def _packed(table: ProgramTable) -> bytes:
    entries = [[e.code, e.flags, [[h.name, n, at] for h, n, at in e.cells]] for e in table.entries]
    types = {numpy_type(one): one.value for one in Type}
    constants = [[types[a.dtype], list(a.shape)] for a in table.constants]
    head = json.dumps([entries, constants, table.size, table.work], separators=(",", ":"))
    body = b"".join(a.tobytes() for a in table.constants)
    return b"\n".join([head.encode(), body + table.graph])


def _unpacked(data: bytes) -> ProgramTable:
    head, _, body = data.partition(b"\n")
    rows, constants, size, work = json.loads(head)
    entries = [TableEntry(code, flags, [(Home[h], n, at) for h, n, at in cells])
               for code, flags, cells in rows]  # fmt: skip
    arrays, at = [], 0
    for kind, shape in constants:
        empty = np.empty(shape, numpy_type(Type(kind)))
        array = np.frombuffer(body, empty.dtype, empty.size, at) if empty.size else empty
        arrays.append(array.reshape(shape).copy())
        at += empty.nbytes
    return ProgramTable(entries, arrays, size, work, body[at:])
