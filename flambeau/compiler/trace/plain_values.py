"""Plain Python values, and when a program may treat two of them as the same.

`==` is not enough: 2, 2.0 and True lead to different dtypes, 0.0 and -0.0 to different infinities,
and NaN equals NaN here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, WrapperDescriptorType
from typing import Any

import numpy as np

from ...native.foundation.method_patches import PatchableType
from ...tensor.tensor import Tensor

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_SLOTS = (WrapperDescriptorType, NoneType)
# Top-level packages whose classes' `==` is known to do nothing else.
_TRUSTED = frozenset(("builtins", "flambeau", "functools", "numpy", "torch"))
_COMPARED_BY_REPR = (float, complex, np.generic)  # repr tells -0.0 from 0.0


def make_plain_key(x: Any) -> tuple[type, Any]:
    """Return a key that is equal for two plain values exactly if they are the same. Of a class of
    the program's own it calls no method."""
    kind = x.__class__
    if kind not in PLAIN and not isinstance(x, np.generic):
        base: Any = next(base for base in PLAIN if isinstance(x, base))
        return kind, int.__int__(x) if base is int else base.__repr__(x)
    return kind, repr(x) if isinstance(x, _COMPARED_BY_REPR) else x


def are_same_plain(a: Any, b: Any) -> bool:
    """Whether two values are the same object or the same plain value."""
    return a is b or (a.__class__ is b.__class__ and isinstance(a, (*PLAIN, np.generic))
                      and make_plain_key(a) == make_plain_key(b))


def are_same_setting(a: Any, b: Any) -> bool:
    """Whether two settings of a function are equal. Objects of the program's own classes are so by
    identity alone, because their `==` may do anything, and tensors, because theirs is an operator.
    """
    kind = a.__class__
    if a is b or kind is not b.__class__ or issubclass(kind, Tensor):
        return a is b
    if str(kind.__module__).partition(".")[0] not in _TRUSTED:
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def write_mismatch(now: str, value: Any, name: Callable[[Any], str]) -> str:
    """Return source for an expression that is true if expression `now` is not the plain `value`.

    `name` assigns names to objects, for use in the source.
    """
    kind = value.__class__
    if value is None or kind is bool:
        return f"{now} is not {value}"
    other = f"(now := {now}).__class__ is not {name(kind)}"
    if kind not in PLAIN and not isinstance(value, np.generic):
        return f"{other} or {name(make_plain_key)}(now) != {name(make_plain_key(value))}"
    if isinstance(value, _COMPARED_BY_REPR) and not (kind is float and value and value == value):
        return f"{other} or repr(now) != {repr(value)!r}"
    return f"{other} or now != {name(value)}"


def computes_class(kind: type) -> bool:
    """Whether `isinstance` runs code of the step's own when asked about such an object."""
    return any("__class__" in vars(c) or type(vars(c).get("__getattribute__")) not in _SLOTS
               for c in type.__getattribute__(kind, "__mro__") if c not in (object, PatchableType))


def get_instance_dict(x: Any) -> dict[str, Any]:
    """Return an object's instance attributes without running code of its class."""
    try:
        attributes = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}
