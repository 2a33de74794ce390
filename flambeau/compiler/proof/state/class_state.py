"""Guard the classes whose methods the library calls on its own: those of modules, optimizers and
other objects of the library, and the classes derived from them.

CPython's version numbers of classes tell that nothing changed, for 60 ns a class. Only where one
differs are the methods compared, because a class may also count calls.
"""

from __future__ import annotations

import functools
import types
from itertools import chain
from operator import call
from typing import Any

from ....native.foundation.class_versions import ClassVersions
from ..declarations import is_in_library
from ..purity import IMMUTABLE, SPECIAL_METHODS, find_on_class, is_own_class

_METHODS = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
_OF_CLASS = frozenset(("__init__", "__new__", "__init_subclass__", "__class_getitem__"))


class ClassState:
    """A snapshot of the methods of classes, and of the names that would hide them in objects."""

    def __init__(self) -> None:
        self.members: dict[type, dict[str, Any]] = {}  # by class
        self.versions = ClassVersions()
        self.numbers: list[int] | None = None
        self.are_free: list[Any] = []  # a test of each object's `__dict__`
        self.hidden: list[frozenset[str]] = []

    def add(self, kind: type) -> None:
        """Add a class, as it is now, if it is the library's or derived from one of those."""
        if kind not in self.members and _list_library_bases(kind):
            self.members[kind] = _read_members(kind)
            self.versions.add(kind)
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
        if self.numbers is not None and self.versions.read() == self.numbers:
            return True
        numbers = self.versions.assign()
        if not all(map(_is_same, map(_read_members, self.members), self.members.values())):
            return False
        self.numbers = numbers
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
