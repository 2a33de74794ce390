"""Memory that processes share: `share_memory_` moves a tensor there, in place.

It is a file without a name, mapped by each process that has its descriptor.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from .storage import owner_of


class SharedMemory(mmap.mmap):
    """A mapping that other processes can have too; `descriptor` is the file's."""

    descriptor: int

    @classmethod
    def of(cls, descriptor: int, size: int) -> SharedMemory:
        """The memory behind a descriptor, which becomes its own."""
        made = cls(descriptor, size)
        made.descriptor = descriptor
        return made

    @classmethod
    def new(cls, size: int) -> SharedMemory:
        """So many bytes, which nobody has yet."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("flambeau")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, size)
        return cls.of(descriptor, size)

    def __del__(self) -> None:
        os.close(self.descriptor)


def shared_memory(array: np.ndarray) -> SharedMemory | None:
    """The shared memory that an array lies in; None for ordinary memory."""
    base: Any = owner_of(array).base
    while isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, SharedMemory) else None


def window(memory: SharedMemory, dtype: Any, shape: Any, strides: Any, offset: int) -> np.ndarray:
    """An array on shared memory; strides and offset are in bytes."""
    return np.ndarray(shape, dtype, memory, offset, strides)


def moved(array: np.ndarray) -> np.ndarray:
    """The array in shared memory: itself if it is there, else a copy with the same strides.

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
    made = window(memory, array.dtype, array.shape, array.strides, 0)
    np.copyto(made, array)
    return made
