"""Worker messages: batches pickled without copying arrays that are in shared memory.

Pickle protocol 5 passes large buffers out of band. They become regions of the worker's arena,
listed before the pickle, and arrays on the parent's mapping when the message is read.
"""

from __future__ import annotations

import io
import pickle
import struct
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ....multiprocessing.reductions import NON_LEAF, rewrap
from ....nn.parameter import Buffer, Parameter
from ....tensor import Tensor
from ....tensor.dtypes import FROM_NUMPY
from ....tensor.layout import as_bytes as bytes_of, find_owner
from .arena import INLINE_BYTES, Arena, ArenaView

_LARGEST_PICKLE = 32768  # longer ones go to the arena, so that messages never fill a socket

_DTYPES = tuple(FROM_NUMPY)
_NUMBER_OF_DTYPE = {dtype: number for number, dtype in enumerate(_DTYPES)}

# Epoch, task, region count, dropped region count, whether the pickle is in the last region.
_HEADER = struct.Struct("<qqII?")
_REGION = struct.Struct("<QQQ")  # offset, capacity, bytes in use
_OFFSET = struct.Struct("<Q")


class BatchPickler(ForkingPickler):
    """The worker's side. One instance serves all messages."""

    def __init__(self, arena: Arena) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, 5, True, self._place)
        self.dispatch_table = {
            **self.dispatch_table,
            **dict.fromkeys((Tensor, Parameter, Buffer), self._reduce_tensor),
        }
        self._arena = arena
        self._regions: list[tuple[int, int, int]] = []
        self._arrays: list[np.ndarray] = []  # arrays on those regions, kept alive until sent
        self._owners: dict[int, tuple[Any, Any]] = {}  # buffer of each memory, by its id

    def message(self, epoch: int, task: int, data: Any) -> list[bytes | memoryview]:
        """Return the parts of a message. From now on the parent owns its regions."""
        try:
            self._file.seek(0)
            self._file.truncate()
            self.dump(data)
            return self._frame(epoch, task, self._file.getbuffer())
        finally:
            self.clear_memo()
            self._regions, self._arrays, self._owners = [], [], {}

    def _frame(self, epoch: int, task: int, pickled: memoryview) -> list[bytes | memoryview]:
        in_arena = len(pickled) > _LARGEST_PICKLE and self._copy(pickled) is not None
        for offset, _, _ in self._regions:
            self._arena.count_send(offset)
        dropped, self._arena.dropped = self._arena.dropped, []
        head = _HEADER.pack(epoch, task, len(self._regions), len(dropped), in_arena)
        regions = [_REGION.pack(*region) for region in self._regions]
        head += b"".join([*regions, *map(_OFFSET.pack, dropped)])
        if in_arena:
            pickled.release()
            return [head]
        return [head, bytes(pickled)]

    def _copy(self, data: Any) -> np.ndarray | None:
        """Copy the bytes to a new region. Return None if there is no room."""
        source = np.frombuffer(data, np.uint8)
        target = self._arena.allocate(source.shape, source.dtype)
        if target is not None:
            target[...] = source
            self._list_region(target)
        return target

    def _list_region(self, array: np.ndarray) -> None:
        """Add the array's region to the message's list."""
        offset = self._arena.find_offset(array)
        assert offset is not None
        self._arrays.append(array)
        self._regions.append((offset, self._arena.get_capacity(offset), find_owner(array).nbytes))

    def _place(self, buffer: pickle.PickleBuffer) -> bool:
        """Return whether a buffer stays in the pickle (pickle's buffer callback)."""
        if buffer is _IN_ARENA:  # a tensor's buffer: its region is listed
            return False
        raw = buffer.raw()
        return raw.nbytes <= INLINE_BYTES or self._copy(raw) is None

    def _reduce_tensor(self, tensor: Tensor) -> Any:
        array: Any = tensor._array
        if type(array) is not np.ndarray:  # meta
            return tensor.__reduce_ex__(2)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(NON_LEAF)
        dtype_code = _NUMBER_OF_DTYPE[array.dtype]
        if array.nbytes <= INLINE_BYTES:
            array = array.copy(order="K")
            return rebuild_tensor, (type(tensor), bytearray(bytes_of(array)), dtype_code,
                                    array.shape,
                                    array.strides, 0, tensor.requires_grad)
        owner = find_owner(array)
        if owner.nbytes > 2 * array.nbytes:  # copy a small part of a large memory
            owner = array = array.copy(order="K")
        buffer = self._buffer_of(owner)
        offset = array.ctypes.data - owner.ctypes.data
        return rebuild_tensor, (type(tensor), buffer, dtype_code, array.shape, array.strides,
                                offset,
                                tensor.requires_grad)

    def _buffer_of(self, owner: np.ndarray) -> Any:
        """Return the pickle's buffer for a memory, which several tensors may share."""
        if id(owner) not in self._owners:
            self._owners[id(owner)] = self._place_in_arena(owner), owner
        stand_in = self._owners[id(owner)][0]
        if not isinstance(stand_in, np.ndarray):
            return stand_in
        self._list_region(stand_in)
        return _IN_ARENA

    def _place_in_arena(self, owner: np.ndarray) -> Any:
        """Return the memory if it is in the arena, else a copy there, else its bytes."""
        if self._arena.find_offset(owner) is not None:
            return owner
        source = bytes_of(owner)
        target = self._arena.allocate(source.shape, source.dtype)
        if target is None:
            return bytearray(source)
        target[...] = source
        return target


_IN_ARENA = pickle.PickleBuffer(bytearray())  # writable, like the buffer that replaces it


def rebuild_tensor(
    cls: type[Tensor], memory: Any, dtype_code: int, shape: tuple[int, ...],
    strides: tuple[int, ...], offset: int, requires_grad: bool,
) -> Tensor:
    """Rebuild a tensor on bytes received with a message."""
    if 0 in shape:
        return rewrap(cls, np.empty(shape, _DTYPES[dtype_code]), requires_grad)
    array = np.ndarray(shape, _DTYPES[dtype_code], memory, offset, strides)
    return rewrap(cls, array, requires_grad)


class Unreadable:
    """Placeholder for a batch that could not be unpickled."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def read_message(message: bytes, view: ArenaView | None) -> tuple[int, int, Any]:
    """Return epoch, task and data of a worker's message."""
    epoch, task, region_count, dropped_count, in_arena = _HEADER.unpack_from(message)
    position = _HEADER.size
    regions: list[Any] = []
    for _ in range(region_count):
        assert view is not None
        regions.append(view.map_region(*_REGION.unpack_from(message, position)))
        position += _REGION.size
    for _ in range(dropped_count):
        assert view is not None
        view.drop(*_OFFSET.unpack_from(message, position))
        position += _OFFSET.size
    pickled = regions.pop() if in_arena else memoryview(message)[position:]
    try:
        return epoch, task, pickle.loads(pickled, buffers=regions)
    except Exception as error:
        return epoch, task, Unreadable(error)
