"""Provenance: where an object on the shadow stack comes from, and whether tensor values affect it.
"""

from __future__ import annotations

import types
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from ...tensor.devices import device
from ...tensor.dtypes import dtype, finfo, iinfo
from ...tensor.layout import layout, memory_format
from ...tensor.size import Size
from ..ir.reasons import Advice, Reason
from ..trace.host_numbers import Read
from ..trace.texts import Text


class _Unknown:
    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()  # an object that the watcher has not seen yet


class Kind(Enum):
    """What kind of object a slot holds."""

    PLAIN = auto()  # an immutable value, determined by the guards on its inputs
    NUMBER = auto()  # a number read from a tensor, or computed from one
    TENSOR = auto()
    OUTSIDE = auto()  # an object that existed before the call; it has a path
    ARGUMENT = auto()  # a container that the caller passed
    FRESH = auto()  # an object that the call created
    METHOD = auto()  # a function looked up on an object
    NULL = auto()
    CELL = auto()
    OPAQUE = auto()  # returned by code that is not watched


class Aspect(Enum):
    """What a proof knows of an object besides its attributes and entries, which may have any name.
    """

    LENGTH = auto()
    CONTENT = auto()
    BYTES = auto()
    TYPE = auto()
    ABSENT = auto()
    CLASS = auto()
    CODE = auto()
    DEFAULTS = auto()
    METADATA = auto()
    MODULE = auto()
    OPTIMIZER = auto()
    OBJECT = auto()
    SAVED = auto()


def make_attribute_key(x: Any, name: str) -> tuple[int, str]:
    """Return the key of an attribute: that of the entry in the object's `__dict__`, if it has one.
    """
    return id(getattr(x, "__dict__", x)), name


class Increment:
    """The value of an outside counter after the step added to it. `amounts`: the addends, which are
    Reads, plain numbers, or UNKNOWN if the addition cannot be repeated."""

    __slots__ = ("amounts", "path")

    def __init__(self, path: str, amounts: list[Any]) -> None:
        self.path, self.amounts = path, amounts


class Symbol(NamedTuple):
    """How a number is computed from outside numbers that existed before the call: source in terms
    of their paths, and the guards on their values."""

    source: str
    reads: tuple[Any, ...]


class Provenance:
    """What the shadow stack knows about one slot.

    `path`: an expression that reads the object again. `guard`: the guard of the read it came from.
    `items`: the parts of a tuple, or the receiver of a method. `parts`: the contents of a list or
    dict that the call created, in order or by key. `tainted`: tensor values influenced it. `read`:
    how a program computes such a number. `symbol`: how it is computed from outside numbers. `text`:
    how a text is made of such numbers. `cells` and `code`: those of a function that the call
    created. `type`: the class of an unknown object.
    """

    __slots__ = (
        "cells", "code", "guard", "increment", "items", "kind", "parts", "path", "read", "symbol",
        "tainted", "text", "type", "value",
    )

    def __init__(self, kind: Kind, value: Any = UNKNOWN, path: str = "", **more: Any) -> None:
        self.kind, self.value, self.path = kind, value, path
        self.guard = more.get("guard")
        self.increment: Increment | None = more.get("increment")
        self.items: list[Provenance] | None = more.get("items")
        self.parts: list[Provenance] | dict[Any, Provenance] | None = more.get("parts")
        self.read: Read | None = more.get("read")
        self.symbol: Symbol | None = more.get("symbol")
        self.text: Text | None = more.get("text")
        self.tainted: bool = more.get("tainted", kind is Kind.NUMBER)
        self.cells: list[Variable] | None = more.get("cells")
        self.code: types.CodeType | None = more.get("code")
        self.type: type | None = more.get("type")

    def __repr__(self) -> str:
        return f"<{self.kind.name.lower()} {self.path or self.value!r:.40}>"


class Variable:
    """The content of a closure cell. `cell` and `path` are set if it existed before the call."""

    __slots__ = ("cell", "content", "path")

    def __init__(
        self, content: Provenance | None = None, path: str = "", cell: Any = None
    ) -> None:
        self.content, self.path, self.cell = content, path, cell


class NotProvedError(Exception):
    """Raised with the reason why a call's Python may not be skipped."""

    @property
    def reason(self) -> str:
        """The text, which may carry advice."""
        return self.args[0]


def depends_on_values(what: str) -> NotProvedError:
    """Return the error for Python that depends on numbers in tensors."""
    return NotProvedError(Reason(f"{what} depends on a tensor's values", Advice.READ_OUTSIDE))


_PLAIN_TYPES = frozenset((
    int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), range,
    slice, types.CodeType, device, dtype, layout, memory_format, finfo, iinfo,
))


def is_number(x: Any) -> bool:
    """Whether a value is an int or a float, subclasses excluded."""
    return type(x) is int or type(x) is float


def is_plain(x: Any) -> bool:
    """Whether a value is immutable. Does not use `isinstance`, which runs the step's code if a
    class computes `__class__`."""
    kind = type(x)
    if kind in _PLAIN_TYPES or issubclass(kind, (np.generic, np.dtype)):
        return not issubclass(kind, np.void)  # records are writable
    if kind in (tuple, frozenset, Size):
        return all(map(is_plain, x))
    return issubclass(kind, Enum)
