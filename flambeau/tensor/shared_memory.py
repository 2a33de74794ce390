"""Memory that processes share: files without a name, mapped by each process that has them open.

`share_memory_` moves a tensor into a file of its own (`SharedMemory`); the workers of a DataLoader
put batches into parts of one file each (`SharedRegion`).
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

from .layout import owner_of


class SharedMemory(mmap.mmap):
    """A mapping that other processes can have too; `descriptor` is the file's."""

    descriptor = -1
    offset = 0

    @classmethod
    def of(cls, descriptor: int, size: int, offset: int = 0) -> SharedMemory:
        """A mapping of part of a file; takes ownership of the descriptor."""
        memory = cls(descriptor, size, offset=offset)
        memory.descriptor, memory.offset = descriptor, offset
        return memory

    @classmethod
    def new(cls, size: int) -> SharedMemory:
        """New shared memory of `size` bytes."""
        descriptor = unnamed_file()
        os.ftruncate(descriptor, size)
        return cls.of(descriptor, size)

    def export(self) -> tuple[int, int, int]:
        """File descriptor, offset and size in bytes, for another process to map."""
        return self.descriptor, self.offset, len(self)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def unnamed_file() -> int:
    """The descriptor of an empty file in memory, which disappears with its last user."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("flambeau")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Mapping:
    """A part of a file in this process's memory, unmapped with the last reference to it.

    Unlike `mmap.mmap` it holds no copy of the file descriptor, so a process may have thousands.
    """

    __slots__ = ("address", "size_bytes")

    def __init__(self, descriptor: int, offset: int, size_bytes: int) -> None:
        library = _libc()
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
            _libc().munmap(self.address, self.size_bytes)


_MAP_FAILED = ctypes.c_void_p(-1).value


@lru_cache(maxsize=1)
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                             ctypes.c_int, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    if hasattr(library, "fallocate"):
        library.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return library


def punch_hole(descriptor: int, offset: int, size_bytes: int) -> None:
    """Give a part of a file back to the system; its bytes read as zeros from now on."""
    library = _libc()
    if hasattr(library, "fallocate"):
        keep_size, hole = 1, 2
        library.fallocate(descriptor, keep_size | hole, offset, size_bytes)


class SharedRegion:
    """The bytes of a mapping that an array uses; `release` is called when no array does any more.

    NumPy reads `__array_interface__`, so `np.asarray(region)` are its bytes.
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
        """File descriptor, offset and size in bytes; from now on the region is not reused."""
        self.release = None
        return self.descriptor, self.offset, self.mapping.size_bytes

    def __del__(self) -> None:
        if self.release is not None:
            self.release(self)


def shared_memory(array: np.ndarray) -> SharedMemory | SharedRegion | None:
    """The shared memory that an array lies in; None for ordinary memory."""
    base: Any = owner_of(array).base
    while isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, (SharedMemory, SharedRegion)) else None


def address_of(memory: SharedMemory | SharedRegion) -> int:
    """Where a shared memory starts in this process."""
    if isinstance(memory, SharedRegion):
        address: int = memory.mapping.address
        return address
    return np.frombuffer(memory, np.uint8).ctypes.data


def window(memory: Any, dtype: Any, shape: Any, strides: Any, offset: int) -> np.ndarray:
    """An array on shared memory; strides and offset are in bytes."""
    return np.ndarray(shape, dtype, memory, offset, strides)


def move_to_shared_memory(array: np.ndarray) -> np.ndarray:
    """Move an array to shared memory: itself if it is there, else a copy with the same strides.

    NotImplementedError for a part of a larger memory, whose other tensors would stay behind.
    """
    if shared_memory(array) is not None:
        return array
    if owner_of(array).nbytes != array.nbytes:
        raise NotImplementedError(
            f"share_memory_ of a tensor of {list(array.shape)} that is a part of a larger memory "
            "is not implemented in flambeau: share the tensor that it was taken from, or a clone"
        )
    memory = SharedMemory.new(max(array.nbytes, 1))
    copied = window(memory, array.dtype, array.shape, array.strides, 0)
    np.copyto(copied, array)
    return copied
