"""KeyTable: the keys, counters and queues of a store, in the memory of one process."""

from __future__ import annotations

from collections import deque

from ..errors import QueueEmptyError


class KeyTable:
    """The logic common to all stores. It has no locks: the owner must serialize access."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, keys: list[str]) -> bool:
        """Return whether each key has a value or a nonempty queue."""
        return all(key in self.values or self.queues.get(key) for key in keys)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, initially 0; return the sum. Raises ValueError for a non-number."""
        total = int(self.values.get(key, b"0")) + amount
        self.values[key] = b"%d" % total
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set `desired` if the value is `expected`, or if that is empty and the key not set.

        Returns the value afterwards, or `expected` if there is none.
        """
        if key not in self.values:
            if expected:
                return expected
            self.values[key] = desired
        elif self.values[key] == expected:
            self.values[key] = desired
        return self.values[key]

    def append(self, key: str, value: bytes) -> None:
        """Append `value` to the key's value."""
        self.values[key] = self.values.get(key, b"") + value

    def delete(self, key: str) -> bool:
        """Delete a key; return whether it was set."""
        return self.values.pop(key, None) is not None

    def push(self, key: str, value: bytes) -> None:
        """Append a value to a queue."""
        self.queues.setdefault(key, deque()).append(value)

    def pop(self, key: str) -> bytes:
        """Remove and return the first value of a queue. Raises QueueEmptyError if it is empty."""
        queue = self.queues.get(key)
        if not queue:
            raise QueueEmptyError("queue is empty")
        return queue.popleft()
