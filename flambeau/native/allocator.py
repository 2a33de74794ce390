"""The C library's allocator, told to keep the memory of arrays for the next ones.

glibc gives large blocks back to the system as soon as they are free, and each page of the next
array then costs a fault: a training step may spend a third of its time there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
KEPT = 256 << 20  # free bytes at the heap's end that are kept
LARGEST = 32 << 20  # bytes of the blocks that are kept; glibc takes no more
_APART = 1 << 20  # bytes of the blocks that are the system's own inside `apart`
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
    kept = [(_MMAP_THRESHOLD, LARGEST), (_TRIM_THRESHOLD, KEPT)]
    done = all(library.mallopt(which, value) for which, value in kept)
    _library = library if done else None
    return done


@contextmanager
def apart() -> Iterator[None]:
    """For arrays that may never be written: meanwhile those of a megabyte and more get memory of
    their own from the system. It costs nothing before it is touched, and is known to be zero,
    while the heap's may have been used, and zeros would be written there."""
    if _library is None:
        yield
        return
    _library.mallopt(_MMAP_THRESHOLD, _APART)
    try:
        yield
    finally:
        _library.mallopt(_MMAP_THRESHOLD, LARGEST)


def give_back() -> None:
    """Gives free memory to the system, which other kinds of arrays are about to want."""
    if sys.platform.startswith("linux"):
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
