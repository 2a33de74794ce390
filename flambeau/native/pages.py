"""Pages of memory that is about to be written, fetched from the system by a thread beforehand.

The system gives memory page by page when it is first written, and clears it: a second for some
gigabytes, on one thread, where nothing else has to be done by it. What lies there stays as it is.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from functools import lru_cache
from typing import Any

import numpy as np

from .pool import threads, usable_processors

WORTH = 1 << 20  # bytes of an array from which on its pages are fetched

# Rows of (address, bytes). To exchange 0 for 0 is a write that changes nothing, whatever others
# do there meanwhile.
_TEXT = """
define void @flambeau_pages_fetch(ptr %rows, i64 %count, i64 %page, ptr %stop) {
entry:
  br label %row
row:
  %i = phi i64 [0, %entry], [%i_next, %next]
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
  br i1 %inside, label %look, label %next
look:
  %asked = load atomic i64, ptr %stop monotonic, align 8
  %over = icmp ne i64 %asked, 0
  br i1 %over, label %end, label %touch
touch:
  %byte = getelementptr i8, ptr %memory, i64 %offset
  %pair = cmpxchg ptr %byte, i8 0, i8 0 monotonic monotonic
  %further = add i64 %offset, %page
  br label %step
next:
  %i_next = add i64 %i, 1
  br label %row
end:
  ret void
}
"""


@lru_cache(maxsize=1)
def _fetch() -> Any:
    from .target import load

    name = "flambeau_pages_fetch"
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return kind(load(_TEXT, (name,))[name])


class Pages:
    """Arrays whose pages are being fetched, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._waiting: list[np.ndarray] = []
        self._thread: threading.Thread | None = None
        self._stop = np.zeros(1, np.int64)
        self._lock = threading.Lock()

    def ask(self, array: np.ndarray) -> None:
        """Has an array's pages fetched, where there is a processor for it."""
        if array.nbytes < WORTH or not array.flags.c_contiguous or self._stop[0]:
            return
        if min(threads(), usable_processors()) < 2:
            return
        with self._lock:
            self._waiting.append(array)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="flambeau-pages")
                self._thread.start()

    def stop(self) -> None:
        """Leaves alone what was not fetched yet. Afterwards nobody else is at the arrays."""
        self._stop[0] = 1
        thread = self._thread
        if thread is not None:
            thread.join()
        self._waiting.clear()

    def _work(self) -> None:
        fetch = _fetch()
        while True:
            with self._lock:
                arrays, self._waiting = self._waiting, []
                if not arrays:
                    self._thread = None
                    return
            rows = np.array([(a.ctypes.data, a.nbytes) for a in arrays], np.int64)
            fetch(rows.ctypes.data, len(rows), mmap.PAGESIZE, self._stop.ctypes.data)
