"""ReleasableArray: an array whose memory goes back to the system between uses.

Views of the array stay valid: autograd saves parts of gathered parameters for backward, and these
parts have their values again once the array is filled again.
"""

from __future__ import annotations

import mmap

import numpy as np

_CAN_RELEASE = hasattr(mmap, "MADV_DONTNEED") and hasattr(mmap, "MAP_PRIVATE")


class ReleasableArray:
    """A one-dimensional array on separate pages. `release()` frees them, but not the addresses."""

    def __init__(self, length: int, dtype: np.dtype) -> None:
        size_bytes = max(1, length * dtype.itemsize)
        if _CAN_RELEASE:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._pages = mmap.mmap(-1, size_bytes, flags=flags)
        else:
            self._pages = mmap.mmap(-1, size_bytes)
        self.array: np.ndarray = np.ndarray((length,), dtype, buffer=self._pages)

    def release(self) -> None:
        """Free the memory; elements then read as zeros, or unchanged if this is unsupported."""
        if _CAN_RELEASE:
            self._pages.madvise(mmap.MADV_DONTNEED)
