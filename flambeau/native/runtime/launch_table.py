"""Launch tables: kernels with their arguments, which all threads execute in one call.

A barrier between records costs 0.1 us.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..target.cost_model import THREAD_LINE_BYTES
from . import thread_pool_ir
from .fast_call import FastCalls
from .thread_pool import POOL, allocate_aligned, ticks_per_second
from .thread_pool_ir import BARRIER, SERIAL

_Start = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@dataclass(frozen=True)
class Record:
    """A kernel's address and its cells: buffer addresses, then sizes.

    `flags`: BARRIER, all threads synchronize after it; SERIAL, only thread 0 runs it.
    """

    function: int
    cells: Sequence[int]
    flags: int = BARRIER


@dataclass(frozen=True)
class Patch:
    """A cell rewritten before each run: the value of table slot `slot` plus `offset`."""

    record: int
    cell: int
    slot: int
    offset: int = 0


@dataclass(frozen=True)
class Timing:
    """Begin and end of each record on each thread, in seconds: (threads, records).

    Between records a thread waits for the others. Only thread 0 runs SERIAL records.
    """

    begin: np.ndarray
    finish: np.ndarray

    @property
    def busy(self) -> np.ndarray:
        """Seconds that each thread spent in each record."""
        return self.finish - self.begin

    @property
    def records(self) -> np.ndarray:
        """Seconds per record, on its slowest thread."""
        return self.busy.max(axis=0)

    @property
    def total(self) -> float:
        """Seconds from the begin of the first record to the end of the last."""
        return float(self.finish.max() - self.begin.min()) if self.finish.size else 0.0


@lru_cache(maxsize=2)
def _start_function(name: str) -> Any:
    return _Start(thread_pool_ir.load_runtime()[name])


class LaunchTable:
    """Kernels that run one after another.

    `patches` name the cells that are filled from a table of `slots` entries on each run. `keep`
    keeps the memory that cells point to alive. Nothing is checked: a wrong address crashes.
    """

    def __init__(self, records: Sequence[Record], patches: Sequence[Patch] = (), slots: int = 0,
                 keep: object = None):
        self.keep = keep
        self.lock = threading.RLock()  # callers hold it to keep their arena beyond a run
        self._cells = (ctypes.c_int64 * max(sum(len(r.cells) for r in records), 1))()
        self._table = (ctypes.c_int64 * max(slots, 1))()
        self._table_at = ctypes.addressof(self._table)
        self._slots = slots
        start, starts = 0, []
        for record in records:
            self._cells[start : start + len(record.cells)] = [*record.cells]
            starts.append(ctypes.addressof(self._cells) + 8 * start)
            start += len(record.cells)
        functions = [record.function for record in records]
        rows = list(zip(functions, starts, _drop_needless_barriers(records), strict=True))
        self._rows, self._count = _create_int64_array(rows), len(rows)
        self._patches = _create_int64_array([_patch(p, records, starts, slots) for p in patches])
        self._memory, self._address = allocate_aligned(2 * THREAD_LINE_BYTES)
        head = (ctypes.c_int64 * 9).from_address(self._address)
        head[:5] = [ctypes.addressof(self._rows), len(rows), ctypes.addressof(self._patches),
                    len(patches), ctypes.addressof(self._table)]
        self._head = head
        self.ran = (ctypes.c_int64 * 1).from_address(self._address + 64)  # completed runs
        self._run = _start_function("start")

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count

    def point(self, cell: int, address: int) -> None:
        """Set a cell, counted over all records, for all later runs."""
        with self.lock:
            self._cells[cell] = address

    def run(self, values: Sequence[Any] = (), threads: int = 0) -> None:
        """Write `values` into the table, one per slot, and run all records.

        A value is an integer, or an array, which stands for its address. `threads` 0 uses the whole
        pool. Calls from several Python threads are serialized. A KeyboardInterrupt is raised before
        or after the run, never during it.
        """
        with self.lock:
            self._fill(values)
            count = threads or POOL.threads()
            if count == 1:
                self._run(0, self._address, 1)
            else:
                POOL.call(self._run, count, self._address)

    def _fill(self, values: Sequence[Any]) -> None:
        if len(values) != self._slots:
            raise ValueError(f"{len(values)} values for a table of {self._slots} slots")
        FastCalls.write_cells(self._table_at, *values)

    def measure(self, values: Sequence[Any] = (), threads: int = 0) -> Timing:
        """Run once, as `run` does, and return the time of each record on each thread."""
        with self.lock:
            self._fill(values)
            count = threads or POOL.threads()
            times = np.zeros((count, self._count, 2), np.int64)
            self._head[5] = times.ctypes.data
            if count == 1:
                _start_function("start_timed")(0, self._address, 1)
            else:
                POOL.call(_start_function("start_timed"), count, self._address)
        times = times[times.any(axis=(1, 2))] if self._count else times
        seconds = (times - times.min(initial=np.iinfo(np.int64).max)) / ticks_per_second()
        return Timing(seconds[..., 0], seconds[..., 1])


def _drop_needless_barriers(records: Sequence[Record]) -> list[int]:
    """Return the flags without needless barriers: the final one, and those between serial records
    if no parallel record ran since the last barrier."""
    flags = [record.flags for record in records]
    alone = True  # whether only thread 0 has worked since the last barrier
    for i, flag in enumerate(flags[:-1]):
        alone = alone and bool(flag & SERIAL)
        if not flags[i] & BARRIER:
            continue
        if alone and flags[i + 1] & SERIAL:
            flags[i] &= ~BARRIER
            flags[i + 1] |= BARRIER
        else:
            alone = True
    if flags:
        flags[-1] &= ~BARRIER
    return flags


def _patch(patch: Patch, records: Sequence[Record], starts: Sequence[int], slots: int
           ) -> list[int]:
    if not 0 <= patch.slot < slots or not 0 <= patch.cell < len(records[patch.record].cells):
        raise IndexError(f"{patch} does not fit a table of {slots} slots and its record's cells")
    return [starts[patch.record] + 8 * patch.cell, patch.slot, patch.offset]


def _create_int64_array(rows: Sequence[Sequence[int]]) -> Any:
    """Rows as one ctypes array of int64."""
    flat = [value for row in rows for value in row]
    return (ctypes.c_int64 * max(len(flat), 1))(*flat)
