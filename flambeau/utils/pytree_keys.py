"""Pytree keys: the position of a child in its container, and key paths to leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class KeyEntry(Protocol):
    """A step from a container to one of its children; str() gives the Python expression."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this key."""


KeyPath = tuple[KeyEntry, ...]


@dataclass(frozen=True)
class SequenceKey:
    """Position in a list, tuple or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the element."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """Key in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the value."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """Field of a named tuple or a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


def keystr(kp: KeyPath) -> str:
    """Format a path as a Python expression.

    >>> from flambeau.utils._pytree import GetAttrKey, MappingKey, keystr
    >>> keystr((MappingKey("a"), GetAttrKey("x")))
    "['a'].x"
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the object at a path in a container."""
    for key in kp:
        obj = key.get(obj)
    return obj
