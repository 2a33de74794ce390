"""Arena: the memory that holds a program's intermediate values."""

from __future__ import annotations

import numpy as np

from ...native.foundation.allocator import MMAP_THRESHOLD_BYTES, trim_heap, build_memory_error

ALIGNMENT = 64  # a cache line, and the widest vector


class Arena:
    """An allocation of `size` bytes; its address `base` is aligned to a cache line."""

    def __init__(self, size: int) -> None:
        if size > MMAP_THRESHOLD_BYTES:  # the heap's free memory cannot serve it
            trim_heap()
        try:
            raw = np.empty(size + ALIGNMENT, np.uint8)
        except MemoryError:
            raise build_memory_error(size, "the arena of a compiled step") from None
        shift = -raw.ctypes.data % ALIGNMENT
        self.size = size
        self.array = raw[shift : shift + max(size, 1)]
        self.base = int(self.array.ctypes.data)
