"""HashStore: a store for the threads of one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta

from ..errors import DistStoreError
from .key_table import KeyTable
from .store import Store, compute_deadline_s, encode


class HashStore(Store):
    """A store in the memory of this process.

    >>> store = torch.distributed.HashStore()
    >>> store.set("color", "green")
    >>> store.get("color"), store.add("visits", 2)
    (b'green', 2)
    """

    def __init__(self) -> None:
        self._table, self._changed = KeyTable(), threading.Condition()

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        """Wait for the keys. The caller holds the lock."""
        end_s = compute_deadline_s(timeout)
        while not self._table.has(list(keys)):
            if not self._changed.wait(max(0.0, end_s - time.monotonic())) \
                    and not self._table.has(list(keys)):
                raise DistStoreError(f"Wait timeout {timeout.total_seconds():g}")

    def set(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.values[key] = encode(value, "set")
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            self._wait([key], self._timeout)
            return self._table.values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = self._table.add(key, amount)
            self._changed.notify_all()
            return total

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        with self._changed:
            self._changed.notify_all()
            return self._table.compare_set(
                key, encode(expected_value, "compare_set"), encode(desired_value, "compare_set")
            )

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self._table.delete(key)

    def num_keys(self) -> int:
        with self._changed:
            return len(self._table.values)

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return self._table.has(list(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        with self._changed:
            self._wait(keys, timeout or self._timeout)

    def append(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.append(key, encode(value, "append"))
            self._changed.notify_all()

    def has_extended_api(self) -> bool:
        return True

    def list_keys(self) -> list[str]:
        with self._changed:
            return list(self._table.values)

    def queue_push(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._table.push(key, encode(value, "queue_push"))
            self._changed.notify_all()

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        with self._changed:
            if block:
                self._wait([key], self._timeout)
            return self._table.pop(key)

    def queue_len(self, key: str) -> int:
        with self._changed:
            return len(self._table.queues.get(key, ()))
