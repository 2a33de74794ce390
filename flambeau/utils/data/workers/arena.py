"""Shared memory through which a worker passes batches to the training process.

Each worker has one unnamed file. It allocates regions in it (`Arena`), collates batches into them
and sends their offsets. The parent maps a region on first use (`ArenaView`) and tells the worker
when the last tensor on it is gone. In steady state batches reuse a few regions mapped by both
processes: no copy, no system call, no page fault.
"""

from __future__ import annotations

import math
import mmap
import os
from collections import deque

import numpy as np

from ....tensor.shared_memory import Mapping, SharedRegion, punch_hole, shared_memory

INLINE_BYTES = 2048  # smaller buffers are copied into the message, which is cheaper
_MAX_FREE_REGIONS = 8  # free regions to keep; beyond that one is returned to the system


def _round_capacity(nbytes: int) -> int:
    """Round `nbytes` up to whole pages and to eighths of a power of two (at most 12.5% more).

    Batches of slightly different sizes, such as padded text, can then share regions.
    """
    step = max(mmap.PAGESIZE, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-nbytes // step) * step


class _Region:
    """A part of the file. `users` counts local arrays (0 or 1) and sends not yet released."""

    __slots__ = ("capacity", "mapping", "offset", "users")

    def __init__(self, mapping: Mapping, offset: int, capacity: int) -> None:
        self.mapping, self.offset, self.capacity = mapping, offset, capacity
        self.users = 0


class Arena:
    """The worker's side: allocates regions and reuses those that both processes have released.

    `failure` is why the system refused memory; batches then travel through the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.failure: str | None = None
        self.dropped: list[int] = []  # offsets that the parent may unmap
        self._regions: dict[int, _Region] = {}
        self._free: dict[int, list[_Region]] = {}  # by capacity
        self._free_count = 0
        self._end = 0

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
        """Return an array in the arena, or None if the system has no memory for it."""
        nbytes = math.prod(shape) * dtype.itemsize
        region = self._take_region(_round_capacity(nbytes))
        if region is None:
            return None
        region.users += 1
        handle = SharedRegion(region.mapping, nbytes, self.descriptor, region.offset,
                              self._mark_unused)
        return np.ndarray(shape, dtype, np.asarray(handle))

    def _take_region(self, capacity: int) -> _Region | None:
        regions = self._free.get(capacity)
        if regions:
            self._free_count -= 1
            return regions.pop()
        offset = self._end
        try:
            os.posix_fallocate(self.descriptor, offset, capacity)
            mapping = Mapping(self.descriptor, offset, capacity)
        except OSError as error:
            self.failure = f"{capacity} bytes: {error.strerror}"
            return None
        self._end = offset + capacity
        region = self._regions[offset] = _Region(mapping, offset, capacity)
        return region

    def find_offset(self, array: np.ndarray) -> int | None:
        """Return the offset of the region that an array occupies, or None for other memory."""
        memory = shared_memory(array)
        if isinstance(memory, SharedRegion) and memory.offset in self._regions:
            return memory.offset
        return None

    def get_capacity(self, offset: int) -> int:
        """Return the size in bytes of the region at `offset`."""
        return self._regions[offset].capacity

    def count_send(self, offset: int) -> None:
        """Count a send of the region at `offset`, which the parent will release."""
        self._regions[offset].users += 1

    def release(self, offsets: list[int]) -> None:
        """Release regions on behalf of the parent."""
        for offset in offsets:
            self._drop_user(self._regions[offset])

    def _mark_unused(self, handle: SharedRegion) -> None:
        region = self._regions.get(handle.offset)
        if region is not None:
            self._drop_user(region)

    def _drop_user(self, region: _Region) -> None:
        region.users -= 1
        if region.users == 0:
            self._free.setdefault(region.capacity, []).append(region)
            self._free_count += 1
            if self._free_count > _MAX_FREE_REGIONS:
                self._punch_free_region(region.capacity)

    def _punch_free_region(self, in_use: int) -> None:
        """Return to the system a free region whose size differs from the one in use."""
        for capacity, regions in self._free.items():
            if regions and capacity != in_use:
                region = regions.pop()
                self._free_count -= 1
                del self._regions[region.offset]
                punch_hole(self.descriptor, region.offset, capacity)
                self.dropped.append(region.offset)
                return


_of_this_process: list[Arena] = []  # one arena in a worker, else empty


def collate_into(arena: Arena) -> None:
    """Make this worker process collate its batches into the arena."""
    _of_this_process[:] = [arena]


def allocate_shared_batch(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """Return shared memory for a batch, or None outside workers and for small batches."""
    if not _of_this_process or math.prod(shape) * dtype.itemsize <= INLINE_BYTES:
        return None
    return _of_this_process[0].allocate(shape, dtype)


class ArenaView:
    """The parent's side: maps regions and collects those that its tensors no longer use."""

    forks = 0  # of this process; a child may still read regions shared at a fork

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.released: deque[int] = deque()  # appended to by any thread that drops a tensor
        self._mappings: dict[int, Mapping] = {}

    def map_region(self, offset: int, capacity: int, nbytes: int) -> np.ndarray:
        """Return the first bytes of a region. It is released with the last array on them."""
        mapping = self._mappings.get(offset)
        if mapping is None:
            mapping = self._mappings[offset] = Mapping(self.descriptor, offset, capacity)
        released, forks = self.released, ArenaView.forks

        def release(handle: SharedRegion) -> None:
            if forks == ArenaView.forks:
                released.append(offset)

        return np.asarray(SharedRegion(mapping, nbytes, self.descriptor, offset, release))

    def take_released(self) -> list[int]:
        """Return the offsets released since the last call."""
        released = self.released
        return [released.popleft() for _ in range(len(released))]

    def drop(self, offset: int) -> None:
        """Unmap a region that the worker returned to the system."""
        self._mappings.pop(offset, None)

    def __del__(self) -> None:
        os.close(self.descriptor)


def _forget_after_fork() -> None:
    ArenaView.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forget_after_fork)
