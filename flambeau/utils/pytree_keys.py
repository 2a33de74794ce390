"""Keys of pytrees: where a child lies in its container, and paths of keys to leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class KeyEntry(Protocol):
    """A step from a container to one of its children; its text is Python's for that step."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """The child of `parent` that the key names."""


KeyPath = tuple[KeyEntry, ...]


@dataclass(frozen=True)
class SequenceKey:
    """Where a child lies in a list, a tuple or a deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The element."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """Where a child lies in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """Where a child lies in a named tuple or a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)


def keystr(kp: KeyPath) -> str:
    """A path as Python writes it.

    >>> from flambeau.utils._pytree import GetAttrKey, MappingKey, keystr
    >>> keystr((MappingKey("a"), GetAttrKey("x")))
    "['a'].x"
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at a path in a container."""
    for key in kp:
        obj = key.get(obj)
    return obj
