"""The C library's allocator, told to keep the memory of arrays for the next ones.

glibc gives large blocks back to the system as soon as they are free, and each page of the next
array then costs a fault: a training step may spend a third of its time there. Blocks of 32 MB and
more it asks of the system one by one, unless the heap's end has room for them: so it gets room
beforehand, whose pages cost nothing until they are written.
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
RETAINED_BYTES = 256 << 20  # free bytes at the heap's end that are kept
# bytes of the blocks that are kept in any case; glibc takes no more
MMAP_THRESHOLD_BYTES = 32 << 20
# bytes that the heap is longer than it must be when it grows, or is cut
_HEAP_PADDING_BYTES = 192 << 20
# bytes of the blocks that are the system's own inside `allocate_outside_heap`
_MMAP_ALWAYS_BYTES = 1 << 20
_library: Any = None  # glibc, where it keeps freed memory


def keep_freed_memory() -> bool:
    """Does so, where the C library is glibc and nobody has set it up; whether it was done."""
    global _library
    if not sys.platform.startswith("linux"):
        return False
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    thresholds = [(_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES), (_TRIM_THRESHOLD, RETAINED_BYTES)]
    done = all(library.mallopt(which, value) for which, value in thresholds)
    _library = library if done else None
    if done and _addresses_are_free() and library.mallopt(_TOP_PAD, _HEAP_PADDING_BYTES):
        # the heap grows, whatever comes first
        np.empty(MMAP_THRESHOLD_BYTES - mmap.PAGESIZE, np.uint8)
    return done


def _addresses_are_free() -> bool:
    """Whether memory that is not written counts for nothing: no limit on addresses is set, and
    the system promises more than it has."""
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
    """For arrays that may never be written: meanwhile those of a megabyte and more get memory of
    their own from the system. It costs nothing before it is touched, and is known to be zero,
    while the heap's may have been used, and zeros would be written there."""
    if _library is None:
        yield
        return
    _library.mallopt(_MMAP_THRESHOLD, _MMAP_ALWAYS_BYTES)
    try:
        yield
    finally:
        _library.mallopt(_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


def out_of_memory_error(size: int, purpose: str) -> MemoryError:
    """The error of bytes that cannot be had, and what for."""
    return MemoryError(f"{purpose} needs {size:,} bytes of memory, which there are not")


def probe(size: int, purpose: str, pages: bool = False) -> None:
    """MemoryError where there are not so many bytes: for what would end the process without.
    `pages`: it asks the system for them, and not the C library."""
    try:
        if pages:
            mmap.mmap(-1, size).close()
        else:
            np.empty(size, np.uint8)
    except (MemoryError, OSError):
        raise out_of_memory_error(size, purpose) from None


def trim_heap() -> None:
    """Gives free memory to the system, which other kinds of arrays are about to want."""
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
