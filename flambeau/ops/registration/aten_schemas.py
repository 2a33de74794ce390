"""Schemas of aten's operators: their overloads and argument types.

`aten_schemas.txt` has one line per overload of each operator that flambeau implements.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from ...tensor.devices import device
from ...tensor.dtypes import dtype
from ...tensor.layout import layout, memory_format
from ...tensor.symbolic_length import SymBool
from ...tensor.tensor import Tensor
from .schema import Argument, Schema

__all__ = ["find_overload", "get_all_schemas", "get_schemas", "matches"]


@cache
def _read_lines() -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    text = (Path(__file__).parent / "aten_schemas.txt").read_text("utf-8")
    for line in text.splitlines():
        lines.setdefault(re.split(r"[.(]", line, maxsplit=1)[0], []).append(line)
    return lines


@cache
def get_schemas(name: str) -> dict[str, Schema]:
    """Return an operator's schemas by overload; none for an unknown name.

    >>> from flambeau.ops.registration.aten_schemas import get_schemas
    >>> [str(schema) for schema in get_schemas("neg").values()]
    ['aten::neg(Tensor self) -> Tensor']
    """
    # Argument types keep no wildcard alias sets: Tensor(a -> *) becomes Tensor(a).
    parsed = [Schema("aten", re.sub(r"\((\w+)(!?) -> \*\)", r"(\1\2)", line))
              for line in _read_lines().get(name, ())]
    return {schema.overload_name or "default": schema for schema in parsed}


def get_all_schemas() -> list[Schema]:
    """Return the schemas of all operators."""
    return [schema for name in _read_lines() for schema in get_schemas(name).values()]


def find_overload(name: str, args: Any, kwargs: dict[str, Any], first: str = "") -> Schema | None:
    """Return the first schema that a call's values fit, trying overload `first` before others.
    """
    known = get_schemas(name)
    ordered = ([known[first]] if first in known else []) + list(known.values())
    return next((s for s in ordered if matches(s, args, kwargs)), None)


def matches(schema: Schema, args: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether a call's values have the types of a schema's arguments."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(positional):
        return False
    values = dict(zip([a.name for a in positional], args, strict=False))
    names = {a.name for a in schema.arguments}
    if values.keys() & kwargs.keys() or not kwargs.keys() <= names:
        return False
    values.update(kwargs)
    return all(_fits(a, values[a.name]) if a.name in values else not a.required
               for a in schema.arguments)


_ATOMS: dict[str, Any] = {
    "Tensor": lambda v: isinstance(v, Tensor),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "SymInt": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "Scalar": lambda v: isinstance(v, (int, float, complex, SymBool)),
    "ScalarType": lambda v: isinstance(v, dtype),
    "Layout": lambda v: isinstance(v, layout),
    "Device": lambda v: isinstance(v, (device, str)),
    "MemoryFormat": lambda v: isinstance(v, memory_format),
}


def _fits(argument: Argument, value: Any) -> bool:
    """Return whether a value matches an argument's type."""
    kind = argument.kind
    if kind.endswith("?"):
        if value is None:
            return True
        kind = kind[:-1]
    sequence = re.fullmatch(r"(\w+)(\??)\[(\d*)\]", kind)
    if sequence is None:
        return kind in _ATOMS and bool(_ATOMS[kind](value))
    atom, optional, size = sequence.groups()
    fits = _ATOMS.get(atom)
    if fits is None:
        return False
    if size and fits(value):
        return True  # a scalar stands for a list of that length
    return isinstance(value, (list, tuple)) and all(
        fits(v) or optional and v is None for v in value)
