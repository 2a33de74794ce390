"""Tune glibc's allocator to keep freed memory for later arrays.

By default glibc returns large blocks to the system, and each page of the next array costs a fault:
up to a third of a training step. Blocks of 32 MB and more are still mapped one by one unless the
top of the heap has room, so the heap is padded; pages cost nothing until they are written.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt
RETAINED_BYTES = 256 << 20  # free bytes kept at the end of the heap
# bytes up to which blocks come from the heap; glibc's maximum
MMAP_THRESHOLD_BYTES = 32 << 20
# extra bytes whenever the heap grows or is trimmed
_HEAP_PADDING_BYTES = 192 << 20
# bytes from which blocks are mapped separately inside `allocate_outside_heap`
_MMAP_ALWAYS_BYTES = 1 << 20
_library: Any = None  # glibc, if the settings are applied


def keep_freed_memory() -> bool:
    """Apply the settings if the C library is glibc and the user has not tuned it; return whether
    they were applied.
    """
    global _library
    if not sys.platform.startswith("linux"):
        return False
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    thresholds = [(_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES), (_TRIM_THRESHOLD, RETAINED_BYTES)]
    done = all(library.mallopt(parameter, value) for parameter, value in thresholds)
    _library = library if done else None
    if done and _is_unwritten_memory_free() and library.mallopt(_TOP_PAD, _HEAP_PADDING_BYTES):
        # the heap grows, whatever comes first
        np.empty(MMAP_THRESHOLD_BYTES - mmap.PAGESIZE, np.uint8)
    return done


def _is_unwritten_memory_free() -> bool:
    """Whether unwritten memory is free: no address space limit is set, and the system overcommits.
    """
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return False
    try:
        with open("/proc/sys/vm/overcommit_memory") as file:
            return file.read().strip() != "2"
    except OSError:
        return False


@contextmanager
def allocate_outside_heap() -> Iterator[None]:
    """In the block, map arrays of a megabyte and more separately: such memory costs nothing until
    written and is known to be zero, whereas heap memory would have to be zeroed.
    """
    if _library is None:
        yield
        return
    _library.mallopt(_MMAP_THRESHOLD, _MMAP_ALWAYS_BYTES)
    try:
        yield
    finally:
        _library.mallopt(_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def build_memory_error(size: int, purpose: str) -> MemoryError:
    """Return the MemoryError for `size` bytes and a purpose."""
    return MemoryError(f"{purpose} needs {size:,} bytes of memory, which there are not")


def probe(size: int, purpose: str, pages: bool = False) -> None:
    """Raise MemoryError if `size` bytes are not available, before code that would crash. `pages`
    asks the system instead of the C library.
    """
    try:
        if pages:
            mmap.mmap(-1, size).close()
        else:
            np.empty(size, np.uint8)
    except (MemoryError, OSError):
        raise build_memory_error(size, purpose) from None


def trim_heap() -> None:
    """Return free heap memory to the system."""
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
