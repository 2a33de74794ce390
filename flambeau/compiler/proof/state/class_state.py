"""Guard the classes whose methods the library calls on its own: those of modules, optimizers and
other objects of the library, and the classes derived from them.

CPython numbers the states of a class: a change to a class or to one of its bases takes the number
away, and the next lookup assigns one that was never used before. Comparing numbers costs 60 ns a
class. Only where one differs are the methods compared, because a class may also count calls.
"""

from __future__ import annotations

import ctypes
import functools
import types
from itertools import chain
from operator import call
from typing import Any

from ..declarations import is_in_library
from ..purity import IMMUTABLE, SPECIAL_METHODS, find_on_class, is_own_class

_OFFSET_BYTES = 384  # of `tp_version_tag` in a PyTypeObject, on all 64-bit platforms
_METHODS = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
_OF_CLASS = frozenset(("__init__", "__new__", "__init_subclass__", "__class_getitem__"))


class ClassState:
    """A snapshot of the methods of classes, and of the names that would hide them in objects."""

    def __init__(self) -> None:
        self.members: dict[type, dict[str, Any]] = {}  # by class
        self.tags: list[Any] = []
        self.numbers: list[int] | None = None
        self.are_free: list[Any] = []  # a test of each object's `__dict__`
        self.hidden: list[frozenset[str]] = []

    def add(self, kind: type) -> None:
        """Add a class, as it is now, if it is the library's or derived from one of those."""
        if kind not in self.members and _list_library_bases(kind):
            self.members[kind] = _read_members(kind)
            self.tags.append(ctypes.c_uint.from_address(id(kind) + _OFFSET_BYTES))
            self.numbers = None

    def add_object(self, x: Any) -> None:
        """Add the class of an object, and that the object hides no more of its methods."""
        self.add(type(x))
        if type(x) in self.members:
            self.are_free.append(vars(x).keys().isdisjoint)
            self.hidden.append(list_methods(type(x)) - vars(x).keys())

    def is_same(self) -> bool:
        """Whether no method has changed since the snapshot."""
        if not all(map(call, self.are_free, self.hidden)):
            return False
        if self.numbers is not None and [tag.value for tag in self.tags] == self.numbers:
            return True
        for kind in self.members:
            type.__getattribute__(kind, "__init__")  # a lookup assigns a number
        numbers = [tag.value for tag in self.tags]
        if not all(map(_is_same, map(_read_members, self.members), self.members.values())):
            return False
        self.numbers = numbers if _HAS_NUMBERS and all(numbers) else None
        return True


def list_methods(kind: type) -> frozenset[str]:
    """Return the names of the methods that the library may call on an object of a class."""
    return frozenset(name for name, value in _read_members(kind).items()
                     if isinstance(value, _METHODS))


def _list_library_bases(kind: type) -> tuple[type, ...]:
    return tuple(base for base in kind.__mro__
                 if not base.__flags__ & IMMUTABLE and not is_own_class(base))


@functools.cache
def _list_names(bases: tuple[type, ...]) -> frozenset[str]:
    """Return the names of the methods of classes of the library, and those that they use."""
    names = {"forward", *SPECIAL_METHODS}
    for name, value in chain.from_iterable(vars(base).items() for base in bases):
        code = getattr(value, "__code__", None)
        if code is not None and is_in_library(code):
            names.update(code.co_names)
        if isinstance(value, _METHODS):
            names.add(name)
    return frozenset(names - _OF_CLASS)


def _read_members(kind: type) -> dict[str, Any]:
    return {name: find_on_class(kind, name) for name in _list_names(_list_library_bases(kind))}


def _is_same(now: dict[str, Any], before: dict[str, Any]) -> bool:
    return now.keys() == before.keys() and all(now[name] is x for name, x in before.items())


def _has_numbers() -> bool:
    """Whether the interpreter numbers the states of classes, as all that are known do."""

    class Probe:
        """A class that changes."""

    tag = ctypes.c_uint.from_address(id(Probe) + _OFFSET_BYTES)
    numbers = set()
    for value in range(3):
        setattr(Probe, "value", value)  # noqa: B010
        if tag.value:
            return False
        type.__getattribute__(Probe, "value")
        numbers.add(tag.value)
    return len(numbers) == 3 and 0 not in numbers


_HAS_NUMBERS = _has_numbers()
