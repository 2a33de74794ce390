"""Prefault memory that is about to be written, on a background thread.

The system clears each page on its first write: about a second for a few gigabytes on one thread.
Touching pages early hides that cost, and leaves their contents unchanged.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ..target.cost_model import MIN_PREFAULT_BYTES, PREFAULT_BLOCK_BYTES
from ..target.usable_processors import count_usable_processors
from .thread_pool import threads


# Each thread takes the next row, (address, bytes). Exchanging 0 for 0 is a write that changes
# nothing, even if other threads write there at the same time.
_IR_TEXT = """
define void @flambeau_pages_fetch(ptr %rows, i64 %count, i64 %page, ptr %next, ptr %stop) {
entry:
  br label %row
row:
  %i = atomicrmw add ptr %next, i64 1 monotonic
  %some = icmp slt i64 %i, %count
  br i1 %some, label %begin, label %end
begin:
  %at = getelementptr {i64, i64}, ptr %rows, i64 %i
  %size_at = getelementptr i64, ptr %at, i64 1
  %memory = load ptr, ptr %at
  %size = load i64, ptr %size_at
  br label %step
step:
  %offset = phi i64 [0, %begin], [%further, %touch]
  %inside = icmp slt i64 %offset, %size
  br i1 %inside, label %look, label %row
look:
  %asked = load atomic i64, ptr %stop monotonic, align 8
  %over = icmp ne i64 %asked, 0
  br i1 %over, label %end, label %touch
touch:
  %byte = getelementptr i8, ptr %memory, i64 %offset
  %pair = cmpxchg ptr %byte, i8 0, i8 0 monotonic monotonic
  %further = add i64 %offset, %page
  br label %step
end:
  ret void
}
"""


@lru_cache(maxsize=1)
def _prefault_function() -> Any:
    from ..jit.elf_loader import load

    name = "flambeau_pages_fetch"
    word, place = ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, place, word, word, place, place)
    return kind(load(_IR_TEXT, (name,))[name])


class _PrefaultJob:
    """Arrays whose pages are prefaulted together, by one or more threads."""

    def __init__(self, arrays: list[np.ndarray], stop: np.ndarray) -> None:
        self.arrays, self._stop = arrays, stop
        rows: list[tuple[int, int]] = []
        for array in arrays:
            begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
            first = (begin // PREFAULT_BLOCK_BYTES + 1) * PREFAULT_BLOCK_BYTES
            cuts = [begin, *range(first, end, PREFAULT_BLOCK_BYTES), end]
            rows += [(a, b - a) for a, b in pairwise(cuts)]
        self._rows, self._next = np.array(rows, np.int64), np.zeros(1, np.int64)

    def work(self) -> None:
        """Prefault the blocks that no other thread has taken."""
        _prefault_function()(
            self._rows.ctypes.data, len(self._rows), mmap.PAGESIZE, self._next.ctypes.data,
            self._stop.ctypes.data,
        )


class PagePrefaulter:
    """Arrays whose pages are being prefaulted, in order of request."""

    def __init__(self) -> None:
        self._waiting: list[np.ndarray] = []
        self._thread: threading.Thread | None = None
        self._job: _PrefaultJob | None = None  # the one the thread works on
        self._rest: _PrefaultJob | None = None  # the remaining arrays, shared by all threads
        self._stop = np.zeros(1, np.int64)
        self._lock = threading.Lock()

    def ask(self, array: np.ndarray) -> None:
        """Request the prefault of an array's pages, if it is large and a processor is free."""
        if array.nbytes < MIN_PREFAULT_BYTES or not array.flags.c_contiguous or self._stop[0]:
            return
        if min(threads(), count_usable_processors()) < 2:
            return
        with self._lock:
            self._waiting.append(array)
            if self._thread is None:
                thread = threading.Thread(target=self._run_jobs, name="flambeau-pages")
                try:
                    thread.start()
                except RuntimeError:  # no more threads: `finish` does the work
                    return
                self._thread = thread

    def finish(self) -> None:
        """Help with the remaining pages, then wait for the thread.

        Starting the work early would make its threads wait on each other's page faults.
        """
        with self._lock:
            job, thread = self._job, self._thread
            rest = self._rest = self._take_job()
        for pending_job in (job, rest):
            if pending_job is not None:
                pending_job.work()
        if thread is not None:
            thread.join()
        self.stop()

    def stop(self) -> None:
        """Cancel remaining requests and wait until the thread no longer touches the arrays."""
        self._stop[0] = 1
        thread = self._thread
        if thread is not None:
            thread.join()
        self._waiting.clear()

    def _take_job(self) -> _PrefaultJob | None:
        """Return a job of all waiting arrays, or None. The caller holds the lock."""
        arrays, self._waiting = self._waiting, []
        return _PrefaultJob(arrays, self._stop) if arrays else None

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                job, self._rest = self._take_job() or self._rest, None
                self._job = job
                if job is None:
                    self._thread = None
                    return
            job.work()


@contextmanager
def prefault(array: np.ndarray) -> Iterator[None]:
    """Prefault an array's pages during the block, and wait for the rest at its end."""
    pages = PagePrefaulter()
    pages.ask(array)
    try:
        yield
    except BaseException:
        pages.stop()
        raise
    pages.finish()
