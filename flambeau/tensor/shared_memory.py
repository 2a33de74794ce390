"""Shared memory between processes: unnamed files, mapped by each process that has them open.

`share_memory_` moves a tensor into a separate file (`SharedMemory`); each DataLoader worker puts
its batches into parts of one file (`SharedRegion`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .layout import find_owner


class SharedMemory(mmap.mmap):
    """A mapping that other processes can share; `descriptor` is the file's."""

    descriptor = -1
    offset = 0

    @classmethod
    def of(cls, descriptor: int, size: int, offset: int = 0) -> SharedMemory:
        """Map part of a file; takes ownership of the descriptor."""
        memory = cls(descriptor, size, offset=offset)
        memory.descriptor, memory.offset = descriptor, offset
        return memory

    @classmethod
    def new(cls, size: int) -> SharedMemory:
        """Allocate shared memory of `size` bytes."""
        descriptor = create_unnamed_file()
        os.ftruncate(descriptor, size)
        return cls.of(descriptor, size)

    def export(self) -> tuple[int, int, int]:
        """Return file descriptor, offset and size in bytes, for another process to map."""
        return self.descriptor, self.offset, len(self)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class FileMapping(mmap.mmap):
    """A file that `from_file` mapped so that writes go to it; `filename` is its name."""

    filename = ""


def find_file(array: np.ndarray) -> FileMapping | None:
    """Return the mapped file that contains an array, or None for other memory."""
    base = _find_memory(array)
    return base if isinstance(base, FileMapping) else None


def _find_memory(array: np.ndarray) -> Any:
    """Return the object whose memory an array's owner shows, None if it owns it itself."""
    base: Any = find_owner(array).base
    while isinstance(base, memoryview):
        base = base.obj
    return base


def create_unnamed_file() -> int:
    """Return the descriptor of an empty in-memory file, which is freed with its last user."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("flambeau")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Mapping:
    """A mapped part of a file, unmapped with the last reference to it.

    Unlike `mmap.mmap` it keeps no copy of the file descriptor, so a process can have thousands.
    """

    __slots__ = ("address", "size_bytes")

    def __init__(self, descriptor: int, offset: int, size_bytes: int) -> None:
        library = _load_libc()
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        self.size_bytes = 0
        self.address = library.mmap(None, size_bytes, protection, flags, descriptor, offset)
        if self.address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        if self.size_bytes:
            _load_libc().munmap(self.address, self.size_bytes)


_MAP_FAILED = ctypes.c_void_p(-1).value


@lru_cache(maxsize=1)
def _load_libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                             ctypes.c_int, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    if hasattr(library, "fallocate"):
        library.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return library


def punch_hole(descriptor: int, offset: int, size_bytes: int) -> None:
    """Return a part of a file to the system; its bytes then read as zeros."""
    library = _load_libc()
    if hasattr(library, "fallocate"):
        keep_size, hole = 1, 2
        library.fallocate(descriptor, keep_size | hole, offset, size_bytes)


class SharedRegion:
    """The bytes of a mapping used by arrays; `release` is called when no array uses them anymore.

    NumPy reads `__array_interface__`, so `np.asarray(region)` returns its bytes.
    """

    __slots__ = ("__array_interface__", "descriptor", "mapping", "offset", "release")

    def __init__(
        self, mapping: Mapping, nbytes: int, descriptor: int, offset: int,
        release: Callable[[SharedRegion], None],
    ) -> None:
        self.mapping, self.descriptor, self.offset = mapping, descriptor, offset
        self.release: Callable[[SharedRegion], None] | None = release
        self.__array_interface__ = {
            "data": (mapping.address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }

    def export(self) -> tuple[int, int, int]:
        """Return file descriptor, offset and size in bytes; the region is not reused afterwards."""
        self.release = None
        return self.descriptor, self.offset, self.mapping.size_bytes

    def __del__(self) -> None:
        if self.release is not None:
            self.release(self)


def shared_memory(array: np.ndarray) -> SharedMemory | SharedRegion | None:
    """Return the shared memory that contains an array, or None for ordinary memory."""
    base = _find_memory(array)
    return base if isinstance(base, (SharedMemory, SharedRegion)) else None


def is_shared(array: np.ndarray) -> bool:
    """Return whether other processes can see what is written to an array."""
    return isinstance(_find_memory(array), (SharedMemory, SharedRegion, FileMapping))


def address_of(memory: SharedMemory | SharedRegion) -> int:
    """Return the start address of shared memory in this process."""
    if isinstance(memory, SharedRegion):
        address: int = memory.mapping.address
        return address
    return np.frombuffer(memory, np.uint8).ctypes.data


def window(memory: Any, dtype: Any, shape: Any, strides: Any, offset: int) -> np.ndarray:
    """Return an array on shared memory; strides and offset are in bytes."""
    return np.ndarray(shape, dtype, memory, offset, strides)


def move_to_shared_memory(array: np.ndarray) -> np.ndarray:
    """Return the array if it is in shared memory, else a copy there with the same strides.

    NotImplementedError for part of a larger allocation, whose other tensors would not move along.
    """
    if is_shared(array):
        return array
    if find_owner(array).nbytes != array.nbytes:
        raise NotImplementedError(
            f"share_memory_ of a tensor of {list(array.shape)} that is a part of a larger memory "
            "is not implemented in flambeau: share the tensor that it was taken from, or a clone"
        )
    memory = SharedMemory.new(max(array.nbytes, 1))
    copied = window(memory, array.dtype, array.shape, array.strides, 0)
    np.copyto(copied, array)
    return copied
