"""Where an object on the shadow stack comes from, and whether tensor values shaped it."""

from __future__ import annotations

import types
from enum import Enum, auto
from typing import Any

import numpy as np

from ...tensor.devices import device
from ...tensor.dtypes import dtype, finfo, iinfo
from ...tensor.layout import layout, memory_format
from ...tensor.size import Size
from ..trace.host_numbers import Read


class _Unknown:
    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()  # an object that the watcher has not seen yet


class Kind(Enum):
    """What is known of a slot."""

    PLAIN = auto()  # an immutable value; the guards on what it was computed from decide it
    NUMBER = auto()  # read from a tensor, or computed from such a number
    TENSOR = auto()
    OUTSIDE = auto()  # an object that lived before the call; it has a path
    ARGUMENT = auto()  # a container that the caller passed
    FRESH = auto()  # an object that the call created
    METHOD = auto()  # a function looked up on an object
    NULL = auto()
    CELL = auto()
    OPAQUE = auto()  # it came out of code that is not watched


class Increment:
    """The value of a counter outside after the step added to it. `amounts`: what it added, Reads
    and plain numbers; UNKNOWN where that cannot be repeated."""

    __slots__ = ("amounts", "path")

    def __init__(self, path: str, amounts: list[Any]) -> None:
        self.path, self.amounts = path, amounts


class Provenance:
    """What the shadow stack knows of one slot.

    `path`: an expression that reads the object again. `guard`: of the read it came from. `items`:
    the parts of a tuple, or the receiver of a method. `parts`: what a list or dict of the call's
    holds, in order or by key. `tainted`: tensor values shaped it. `read`: how a program works such
    a number out. `cells` and `code`: of a function that the call created. `type`: where the object
    itself is unknown.
    """

    __slots__ = (
        "cells", "code", "guard", "increment", "items", "kind", "parts", "path", "read", "tainted",
        "type", "value",
    )

    def __init__(self, kind: Kind, value: Any = UNKNOWN, path: str = "", **more: Any) -> None:
        self.kind, self.value, self.path = kind, value, path
        self.guard = more.get("guard")
        self.increment: Increment | None = more.get("increment")
        self.items: list[Provenance] | None = more.get("items")
        self.parts: list[Provenance] | dict[Any, Provenance] | None = more.get("parts")
        self.read: Read | None = more.get("read")
        self.tainted: bool = more.get("tainted", kind is Kind.NUMBER)
        self.cells: list[Variable] | None = more.get("cells")
        self.code: types.CodeType | None = more.get("code")
        self.type: type | None = more.get("type")

    def __repr__(self) -> str:
        return f"<{self.kind.name.lower()} {self.path or self.value!r:.40}>"


class Variable:
    """The content of a closure cell; `cell` and its `path` where it lived before the call."""

    __slots__ = ("cell", "content", "path")

    def __init__(
        self, content: Provenance | None = None, path: str = "", cell: Any = None
    ) -> None:
        self.content, self.path, self.cell = content, path, cell


class NotProvedError(Exception):
    """Why the Python of a call may not be skipped."""


_PLAIN_TYPES = frozenset((
    int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), range,
    slice, types.CodeType, device, dtype, layout, memory_format, finfo, iinfo,
))


def is_plain(x: Any) -> bool:
    """Whether nobody can change a value."""
    kind = x.__class__
    if kind in _PLAIN_TYPES or isinstance(x, (np.generic, np.dtype)):
        return not isinstance(x, np.void)  # a record can be written to
    if kind in (tuple, frozenset, Size):
        return all(map(is_plain, x))
    return isinstance(x, Enum)
