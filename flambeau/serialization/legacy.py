"""The format before zip: several pickles, then the storages' bytes. Written only on request.

The older tar format is not supported.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..tensor.dtypes import uint8
from ..tensor.storage import TypedStorage, UntypedStorage
from .byte_order import swap_bytes
from .location import MapLocation, restorer
from .pickler import StorageTable, get_pickler
from .rebuild import StorageType

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001

Unpickle = Callable[[IO[bytes], Callable[[Any], Any], Any, dict[str, Any]], Any]


class _Storages:
    """The storages that a pickle refers to. Their bytes follow the pickles."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.by_key: dict[str, tuple[TypedStorage, str]] = {}

    def __call__(self, reference: tuple[Any, ...]) -> Any:
        if reference[0] in ("module", b"module"):
            return reference[1]
        if len(reference) != 6:
            raise pickle.UnpicklingError("a reference to a storage is malformed")
        storage_type, key, location, count, view = reference[1:]
        key = _as_text(key)
        element_type = storage_type.dtype if isinstance(storage_type, StorageType) else uint8
        ok = type(key) is str and type(count) is int and type(location) in (str, bytes)
        is_new = key not in self.by_key
        if not ok or (is_new and not 0 <= count * element_type.itemsize <= self._limit):
            raise pickle.UnpicklingError("a reference to a storage is malformed")
        if is_new:
            memory = UntypedStorage(np.zeros(count * element_type.itemsize, np.uint8))
            tag = location.decode("ascii") if isinstance(location, bytes) else location
            self.by_key[key] = (TypedStorage(wrap_storage=memory, dtype=element_type), tag)
            self._limit -= memory.nbytes()
        storage = self.by_key[key][0]
        if view is None:
            return storage
        if type(view) is not tuple or [type(number) for number in view[1:]] != [int, int]:
            raise pickle.UnpicklingError("a view of a storage is malformed")
        _, offset, size = view
        start, end = offset * element_type.itemsize, (offset + size) * element_type.itemsize
        if not 0 <= start <= end <= storage.nbytes():
            raise pickle.UnpicklingError("a view of a storage reaches outside it")
        return TypedStorage(wrap_storage=storage._untyped_storage[start:end], dtype=element_type)


def _as_text(key: Any) -> Any:
    """Return a storage's key as str. Python 2 wrote bytes, which encoding="bytes" keeps."""
    return key.decode("ascii", "replace") if type(key) is bytes else key


def load(
    file: IO[bytes], map_location: MapLocation, unpickle: Unpickle, module: Any,
    options: dict[str, Any],
) -> Any:
    """Load a file of this format. Raises RuntimeError for another format."""
    start = file.tell()
    end = file.seek(0, 2)
    _refuse_tar(file, start)
    file.seek(start)
    storages = _Storages(end - start)
    if unpickle(file, storages, module, options) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = unpickle(file, storages, module, options)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    system = unpickle(file, storages, module, options)
    if type(system) is not dict:
        raise RuntimeError("the description of the system is missing; corrupt file?")
    order = "little" if system.get("little_endian", True) else "big"
    result = unpickle(file, storages, module, options)
    keys = unpickle(file, storages, module, options)
    if type(keys) is not list:
        raise RuntimeError("the list of storages is missing; corrupt file?")
    for key in map(_as_text, keys):
        if type(key) is not str or key not in storages.by_key:
            raise RuntimeError("a storage key was not found in deserialized_objects")
        _fill(file, *storages.by_key[key], map_location, order)
    return result


def _refuse_tar(file: IO[bytes], start: int) -> None:
    file.seek(start + 257)
    if file.read(5) == b"ustar":
        raise NotImplementedError("load: flambeau does not read PyTorch's old tar format")


def _fill(
    file: IO[bytes], storage: TypedStorage, location: str, map_location: MapLocation, order: str
) -> None:
    """Read a storage's bytes into the memory that its tensors already use."""
    memory = storage._untyped_storage._bytes
    (count,) = struct.unpack("<q", _read_exactly(file, 8))
    if count * storage.dtype.itemsize != memory.size:
        raise RuntimeError(
            f"a storage has {count} elements in the file and {len(storage)} in its pickle"
        )
    _read_into(file, memory)
    if order != sys.byteorder and storage.dtype.itemsize > 1:
        swap_bytes(memory, storage.dtype)
    # The tensors exist already, so their storage cannot move.
    if restorer(map_location)(storage._untyped_storage, location) is not storage._untyped_storage:
        raise NotImplementedError(
            "load: a file of the format before zip can only be loaded to the CPU; load it with "
            "map_location='cpu' and move the tensors"
        )


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise EOFError(f"the file ends {size - len(data)} bytes too early")
    return data


def _read_into(file: IO[bytes], memory: np.ndarray) -> None:
    """Fill memory, without an intermediate copy if the file has `readinto`."""
    readinto = getattr(file, "readinto", None)
    if readinto is None:
        memory[...] = np.frombuffer(_read_exactly(file, memory.size), np.uint8)
    elif memory.size and (count := readinto(memory)) != memory.size:
        raise EOFError(f"the file ends {memory.size - (count or 0)} bytes too early")


class _Table(StorageTable):
    def reference(self, stored: TypedStorage | UntypedStorage) -> tuple[Any, ...]:
        return (*super().reference(stored), None)


def save(obj: Any, file: IO[bytes], pickle_module: Any, protocol: int) -> None:
    """Write `obj` in this format, for readers older than PyTorch 1.6."""
    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        pickle_module.dump(header, file, protocol=protocol)
    table = _Table()
    get_pickler(pickle_module, file, protocol, table).dump(obj)
    keys = sorted(table.storages)
    pickle_module.dump(keys, file, protocol=protocol)
    for key in keys:
        storage = table.storages[key]
        file.write(struct.pack("<q", storage.nbytes() // table.itemsizes[key]))
        file.write(storage._bytes.data if storage.nbytes() else b"")
