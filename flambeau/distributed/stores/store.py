"""Store: the interface of all key-value stores. Values are bytes; a str is stored as UTF-8."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

DEFAULT_TIMEOUT = timedelta(seconds=300)


class Store:
    """A key-value store shared by several processes. Subclasses implement the operations.

    `get` and `wait` block until the keys are set and raise DistStoreError after `timeout` (300 s).
    See https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store.
    """

    _timeout: timedelta = DEFAULT_TIMEOUT

    is_served_here = False  # whether a thread of this process serves the store

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` block."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` block."""
        if not isinstance(timeout, timedelta):
            raise TypeError(f"set_timeout(): timeout must be a timedelta, not {type(timeout)}")
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under `key`."""
        raise NotImplementedError("Not implemented.")

    def get(self, key: str) -> bytes:
        """Wait until `key` is set and return its value."""
        raise NotImplementedError("Not implemented.")

    def add(self, key: str, amount: int) -> int:
        """Add to the counter `key`, initially 0, and return the sum."""
        raise NotImplementedError("Not implemented.")

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Set a key whose value is as expected (empty: not set); return its value afterwards."""
        raise NotImplementedError("Not implemented.")

    def delete_key(self, key: str) -> bool:
        """Delete `key`; return whether it was set."""
        raise NotImplementedError("Not implemented.")

    def num_keys(self) -> int:
        """Return the number of keys."""
        raise NotImplementedError("Not implemented.")

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are set, without waiting."""
        raise NotImplementedError("Not implemented.")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are set. Raises DistStoreError after the timeout."""
        raise NotImplementedError("Not implemented.")

    def append(self, key: str, value: str | bytes) -> None:
        """Append to the value of `key`."""
        raise NotImplementedError("append support is not implemented.")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Store several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return whether `append`, `multi_get` and `multi_set` are one operation each."""
        return False

    def list_keys(self) -> list[str]:
        """Return the keys that are set."""
        raise NotImplementedError("list_keys support is not implemented.")

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Append a value to the queue `key`."""
        raise NotImplementedError("queue support is not implemented.")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove and return a queue's first value; wait for one, or raise QueueEmptyError."""
        raise NotImplementedError("queue support is not implemented.")

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        raise NotImplementedError("queue support is not implemented.")

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` callers have called this with the same key."""
        if self.add(f"{key}/count", 1) == world_size:
            self.set(f"{key}/done", b"1")
        self.wait([f"{key}/done"], timeout or self._timeout)

    def clone(self) -> Store:
        """Return a store with the same keys, for use by another thread."""
        return self


def encode(value: Any, function: str) -> bytes:
    """Return a value as bytes. Raises TypeError if it is neither str nor bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{function}(): values of a store are str or bytes, not {type(value).__name__}")


def compute_deadline_s(timeout: timedelta) -> float:
    """Return the deadline of a timeout on time.monotonic's clock."""
    return time.monotonic() + timeout.total_seconds()
