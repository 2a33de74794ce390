"""FileStore: a store in a file to which the processes of one machine append."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Sequence
from datetime import timedelta

from ..errors import DistStoreError
from .key_table import KeyTable
from .store import Store, compute_deadline_s, encode

_POLL_S = 0.01
_HEADER = struct.Struct("<BII")
_SET, _DELETE = 0, 1
_USERS = "\0users"


class FileStore(Store):
    """A store in `file_name`: a log of all changes, written under a file lock.

    With a `world_size` the file is removed once that many stores are closed.

    >>> import os, tempfile
    >>> store = torch.distributed.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    >>> store.set("color", "green")
    >>> store.get("color")
    b'green'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self._path, self._world_size = os.fspath(file_name), world_size
        self._table, self._position = KeyTable(), 0
        if world_size > 0:
            self.add(_USERS, 1)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def _open_locked(self) -> int:
        """Open, lock and read the file to its end. Closing the descriptor unlocks it."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            self._read(file)
        except BaseException:
            os.close(file)
            raise
        return file

    def _read(self, file: int) -> None:
        size = os.fstat(file).st_size
        text = os.pread(file, size - self._position, self._position)
        start = 0
        while start < len(text):
            kind, key_bytes, value_bytes = _HEADER.unpack_from(text, start)
            start += _HEADER.size
            key = text[start : start + key_bytes].decode()
            value = text[start + key_bytes : start + key_bytes + value_bytes]
            start += key_bytes + value_bytes
            if kind == _SET:
                self._table.values[key] = value
            else:
                self._table.delete(key)
        self._position = size

    def _log(self, file: int, kind: int, key: str, value: bytes) -> None:
        name = key.encode()
        record = _HEADER.pack(kind, len(name), len(value)) + name + value
        os.pwrite(file, record, self._position)
        self._position += len(record)

    def set(self, key: str, value: str | bytes) -> None:
        file = self._open_locked()
        try:
            self._table.values[key] = encode(value, "set")
            self._log(file, _SET, key, self._table.values[key])
        finally:
            os.close(file)

    def get(self, key: str) -> bytes:
        self._wait([key], self._timeout, f"Timeout waiting for key: {key} after "
                   f"{self._timeout // timedelta(milliseconds=1)} ms")
        return self._table.values[key]

    def add(self, key: str, amount: int) -> int:
        file = self._open_locked()
        try:
            total = self._table.add(key, amount)
            self._log(file, _SET, key, self._table.values[key])
        finally:
            os.close(file)
        return total

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        file = self._open_locked()
        try:
            before = self._table.values.get(key)
            value = self._table.compare_set(
                key, encode(expected_value, "compare_set"), encode(desired_value, "compare_set")
            )
            if self._table.values.get(key) != before:
                self._log(file, _SET, key, value)
        finally:
            os.close(file)
        return value

    def append(self, key: str, value: str | bytes) -> None:
        file = self._open_locked()
        try:
            self._table.append(key, encode(value, "append"))
            self._log(file, _SET, key, self._table.values[key])
        finally:
            os.close(file)

    def delete_key(self, key: str) -> bool:
        file = self._open_locked()
        try:
            existed = self._table.delete(key)
            if existed:
                self._log(file, _DELETE, key, b"")
        finally:
            os.close(file)
        return existed

    def _refresh(self) -> None:
        os.close(self._open_locked())

    def num_keys(self) -> int:
        self._refresh()
        return len(self._table.values)

    def check(self, keys: Sequence[str]) -> bool:
        self._refresh()
        return self._table.has(list(keys))

    def list_keys(self) -> list[str]:
        self._refresh()
        return [key for key in self._table.values if key != _USERS]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._wait(keys, timeout or self._timeout, "Wait timeout")

    def _wait(self, keys: Sequence[str], timeout: timedelta, message: str) -> None:
        end_s = compute_deadline_s(timeout)
        while not self.check(keys):
            if time.monotonic() > end_s:
                raise DistStoreError(message)
            time.sleep(_POLL_S)

    def clone(self) -> Store:
        copy = FileStore(self._path)
        copy._timeout = self._timeout
        return copy

    def __del__(self) -> None:
        if getattr(self, "_world_size", 0) <= 0:
            return
        try:
            if self.add(_USERS + " done", 1) == self._world_size:
                os.remove(self._path)
        except (OSError, ValueError):
            pass  # the folder is gone or the file is not a store: nothing to remove
