"""KeyTable: the keys, counters and queues of a store, in the memory of one process."""

from __future__ import annotations

from collections import deque

from ..errors import QueueEmptyError


class KeyTable:
    """What every store computes, without locks: its owner sees to those."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, keys: list[str]) -> bool:
        """Whether each key has a value, or a queue that is not empty."""
        return all(key in self.values or self.queues.get(key) for key in keys)

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, which starts at 0; ValueError for a value that is no number."""
        total = int(self.values.get(key, b"0")) + amount
        self.values[key] = b"%d" % total
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set `desired` where `expected` is the value, or is empty and there is none.

        Returns the value afterwards; `expected` where there is none.
        """
        if key not in self.values:
            if expected:
                return expected
            self.values[key] = desired
        elif self.values[key] == expected:
            self.values[key] = desired
        return self.values[key]

    def append(self, key: str, value: bytes) -> None:
        """Put `value` behind what the key has."""
        self.values[key] = self.values.get(key, b"") + value

    def delete(self, key: str) -> bool:
        """Forget a key; whether there was one."""
        return self.values.pop(key, None) is not None

    def push(self, key: str, value: bytes) -> None:
        """Put a value at the end of a queue."""
        self.queues.setdefault(key, deque()).append(value)

    def pop(self, key: str) -> bytes:
        """The first value of a queue, which loses it; QueueEmptyError where there is none."""
        queue = self.queues.get(key)
        if not queue:
            raise QueueEmptyError("queue is empty")
        return queue.popleft()
