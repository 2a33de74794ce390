"""Arena: the memory that a program's values lie in from one kernel to another."""

from __future__ import annotations

import numpy as np

from ...native.foundation.allocator import LARGEST, give_back, missing

ALIGNMENT = 64  # a cache line, and the widest vector


class Arena:
    """So many bytes; `base` is their address, a multiple of a cache line."""

    def __init__(self, size: int) -> None:
        if size > LARGEST:  # what eager calls left free is of no use for it
            give_back()
        try:
            raw = np.empty(size + ALIGNMENT, np.uint8)
        except MemoryError:
            raise missing(size, "the arena of a compiled step") from None
        shift = -raw.ctypes.data % ALIGNMENT
        self.size = size
        self.array = raw[shift : shift + max(size, 1)]
        self.base = int(self.array.ctypes.data)
