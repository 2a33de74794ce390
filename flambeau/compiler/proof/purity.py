"""Tables of Python's pure C functions and types, and of methods that read or write containers."""

from __future__ import annotations

import collections
import math
import operator
import types
from collections import OrderedDict
from typing import Any

IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: attributes of such a class cannot be set
PURE_FUNCTIONS = frozenset((
    len, isinstance, issubclass, min, max, abs, sum, divmod, pow, round, all, any, iter, repr,
    callable, ord, chr, sorted, format,
)) | {
    f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)
}
# These read only types and lengths, so their results do not depend on tensor values.
OF_STRUCTURE = frozenset((isinstance, issubclass, callable, len))
# The result depends on how the arguments compare or on their truth.
CHOOSING = frozenset((sorted, min, max, any, all))
PURE_TYPES = frozenset((
    int, float, bool, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, zip,
    enumerate, reversed, map, filter, super, object, type, OrderedDict,
))
NUMBER_TYPES = frozenset((int, float, bool, complex, str))
VALUE_TYPES = frozenset((str, bytes, int, float, tuple, range, bool, complex, frozenset))
READING_METHODS: dict[type, frozenset[str]] = {
    list: frozenset(("index", "count", "copy", "__len__")),
    tuple: frozenset(("index", "count")),
    dict: frozenset(("get", "items", "keys", "values", "copy", "__contains__", "__getitem__")),
    OrderedDict: frozenset(("get", "items", "keys", "values", "copy")),
    set: frozenset(("union", "intersection", "difference", "copy", "issubset")),
    frozenset: frozenset(("union", "intersection", "difference", "copy", "issubset")),
}
WRITING_METHODS: dict[type, frozenset[str]] = {
    list: frozenset(
        ("append", "extend", "insert", "pop", "sort", "reverse", "clear", "remove")
    ),
    dict: frozenset(("update", "setdefault", "pop", "clear")),
    OrderedDict: frozenset(("update", "setdefault", "pop", "clear", "move_to_end")),
    set: frozenset(("add", "update", "discard", "remove")),
}
# C types with Python's default attribute lookup.
_GENERIC_LOOKUP = frozenset(
    kind.__dict__.get("__getattribute__") for kind in (
        object, tuple, list, dict, set, frozenset, str, bytes, int, float, complex, range, slice,
        BaseException, OrderedDict, collections.defaultdict, collections.deque,
        types.SimpleNamespace, types.FunctionType, types.MethodType, types.MappingProxyType,
    )
) | {None}
ARITHMETIC: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "<<": operator.lshift,
    ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}


def finds_attributes_as_usual(kind: type) -> bool:
    """Whether a type uses Python's default `__getattribute__`."""
    return kind.__module__ == "numpy" or getattr(kind, "__getattribute__", None) in _GENERIC_LOOKUP


def is_read_by_path(x: Any) -> bool:
    """Whether guards compare what a call read of such an argument, not which object it is: an
    instance of a class of the step's own that looks up attributes as usual, wraps no C type and
    cannot be called."""
    kind = type(x)
    return (
        not callable(x) and getattr(kind, "__getattribute__", None) in _GENERIC_LOOKUP
        and not hasattr(kind, "__getattr__")
        and all(c is object or not (c.__flags__ & IMMUTABLE or _is_of_library(c))
                for c in kind.__mro__)
    )


def _is_of_library(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] in ("flambeau", "torch")


def is_pure(x: Any) -> bool:
    """Whether a C function is pure."""
    try:
        return x in PURE_FUNCTIONS
    except TypeError:
        return False
