"""Plain values of Python: which are the same to a program. `==` is not enough: 2, 2.0 and True make
tensors of other dtypes, 0.0 and -0.0 other infinities, and a NaN is the same as another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BY_LOOK = (float, complex, np.generic)  # of which repr says all that == does not


def plain_key(x: Any) -> tuple[type, Any]:
    """What is equal for two plain values where these are the same, and only there."""
    return x.__class__, repr(x) if isinstance(x, _BY_LOOK) else x


def same_plain(a: Any, b: Any) -> bool:
    """Whether two values are one object, or the same plain value."""
    return a is b or (a.__class__ is b.__class__ and isinstance(a, (*PLAIN, np.generic))
                      and plain_key(a) == plain_key(b))


def unlike(now: str, value: Any, name: Callable[[Any], str]) -> str:
    """An expression that holds where what `now` says is not the same as a plain value; `name` gives
    names to objects."""
    kind = value.__class__
    if value is None or kind is bool:
        return f"{now} is not {value}"
    other = f"(now := {now}).__class__ is not {name(kind)}"
    if isinstance(value, _BY_LOOK) and not (kind is float and value and value == value):
        return f"{other} or repr(now) != {repr(value)!r}"
    return f"{other} or now != {name(value)}"


def instance_dict(x: Any) -> dict[str, Any]:
    """The attributes that an object has of its own; runs no code of its class."""
    try:
        own = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}
