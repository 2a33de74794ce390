"""Tables of Python's pure C functions and types, and of methods that read or write containers."""

from __future__ import annotations

import collections
import itertools
import math
import operator
import types
from collections import OrderedDict
from typing import Any

import numpy as np

from ...tensor.size import Size
from .declarations import is_in_library, is_in_standard_library

IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: attributes of such a class cannot be set
PURE_FUNCTIONS = frozenset((
    len, isinstance, issubclass, min, max, abs, sum, divmod, pow, round, all, any, iter, repr,
    callable, ord, chr, sorted, format,
)) | {
    f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)
}
# Of numbers they compute a number from nothing else.
NUMBER_FUNCTIONS = frozenset((min, max, abs, round)) | {
    f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)
}
# NumPy's functions of numbers, which are pure if the numbers are known: `np.sqrt(width)`,
# `np.prod(shape)`. Of a tensor they would read the values.
_NUMPY_FUNCTIONS = frozenset(f for f in vars(np).values() if f.__class__ is np.ufunc) | {
    np.prod, np.clip, np.round, np.around,
}
# These read only types and lengths, so their results do not depend on tensor values.
OF_STRUCTURE = frozenset((isinstance, issubclass, callable, len))
# Methods of classes that C code looks up by itself, or does without if a class lacks them.
SPECIAL_METHODS = frozenset(f"__{name}__" for name in (
    "abs add and bool bytes call ceil complex contains del delattr delete delitem divmod enter eq "
    "exit float floor floordiv format ge get getattr getattribute getitem gt hash iadd iand "
    "ifloordiv ilshift imatmul imod imul index init instancecheck int invert ior ipow irshift isub "
    "iter itruediv ixor le len length_hint lshift lt match_args matmul missing mod mul ne neg new "
    "next or pos pow radd rand rdivmod repr reversed rfloordiv rlshift rmatmul rmod rmul ror round "
    "rpow rrshift rshift rsub rtruediv rxor set setattr setitem str sub subclasscheck truediv "
    "trunc xor"
).split())
# The result depends on how the arguments compare or on their truth.
CHOOSING = frozenset((sorted, min, max, any, all))
PURE_TYPES = frozenset((
    int, float, bool, complex, str, bytes, tuple, list, dict, set, frozenset, range, slice, zip,
    enumerate, reversed, map, filter, super, object, type, OrderedDict,
    itertools.chain, itertools.islice, itertools.product, itertools.repeat, itertools.zip_longest,
    itertools.combinations, itertools.permutations, itertools.pairwise,
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


def has_default_getattribute(kind: type) -> bool:
    """Whether a type uses Python's default `__getattribute__`."""
    return kind.__module__ == "numpy" or getattr(kind, "__getattribute__", None) in _GENERIC_LOOKUP


def find_on_class(kind: type, name: str) -> Any:
    """Return the raw attribute of a class, searched along its MRO; None if absent."""
    return next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), None)


def runs_own_code(raw: Any) -> bool:
    """Whether looking up a class attribute runs code of the step's own, even on the class."""
    if isinstance(raw, classmethod):  # before Python 3.13 it calls `__get__` of what it wraps
        return not isinstance(raw.__func__, types.FunctionType) and (
            hasattr(type(raw.__func__), "__get__"))
    return _is_own_code(find_on_class(type(raw), "__get__"))


def computes_members(kind: type, name: str) -> bool:
    """Whether a metaclass computes an attribute of its class."""
    meta: Any = type(kind)
    if meta is type:
        return False
    raw = find_on_class(meta, name)
    hides = hasattr(type(raw), "__set__") and not any(
        c.__flags__ & IMMUTABLE and name in c.__dict__ for c in meta.__mro__)
    return hides or _is_own_code(find_on_class(meta, "__getattribute__"))


def _is_own_code(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and not (is_in_library(code) or is_in_standard_library(code))


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


def is_own_class(kind: type) -> bool:
    """Whether a class may change: neither C code nor the library defines it."""
    return not (kind.__flags__ & IMMUTABLE or _is_of_library(kind))


def _is_of_library(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] in ("flambeau", "torch")


def is_pure(x: Any) -> bool:
    """Whether a C function is pure."""
    try:
        return x in PURE_FUNCTIONS
    except TypeError:
        return False


def is_numpy_of_numbers(function: Any, operands: list[Any]) -> bool:
    """Whether a call is one of NumPy's functions or scalar types of plain numbers, or of tuples or
    lists of them. What is undefined must warn, which refuses the call: then errors need no guard.
    """
    try:
        is_known = function in _NUMPY_FUNCTIONS or (
            isinstance(function, type) and issubclass(function, np.number))
    except TypeError:
        return False
    if not is_known or not all(map(_is_numeric, operands)):
        return False
    settings = np.geterr()
    return all(settings[kind] in ("warn", "log") for kind in ("divide", "over", "invalid"))


def _is_numeric(x: Any) -> bool:
    if x.__class__ in (tuple, list, Size):
        return all(map(_is_numeric, x))
    return x.__class__ in (bool, int, float, complex) or isinstance(x, np.number)
