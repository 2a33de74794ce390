"""Namespace: unique identifiers for the values of a graph."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections import defaultdict
from typing import Any, NamedTuple

from ..tensor.devices import device
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree
from .qualified_names import import_of_torch, torch_module

__all__ = ["CustomBuiltin", "Namespace", "custom_builtins", "register_custom_builtin"]

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


class CustomBuiltin(NamedTuple):
    """A name that generated code uses like a builtin: its import statement and the object."""

    import_str: str
    obj: Any


_registered: dict[str, CustomBuiltin] = {}


def custom_builtins() -> dict[str, CustomBuiltin]:
    """Return the names that the `repr` of arguments uses but Python does not define."""
    if not _registered:
        torch = torch_module()
        package = "torch" if import_of_torch() == "import torch" else torch.__name__
        _registered.update({
            "inf": CustomBuiltin("from math import inf", math.inf),
            "nan": CustomBuiltin("from math import nan", math.nan),
            "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
            "torch": CustomBuiltin(import_of_torch(), torch),
            "device": CustomBuiltin(f"from {package} import device", device),
            "fx_pytree": CustomBuiltin(f"import {package}.fx._pytree as fx_pytree", fx_pytree),
            "pytree": CustomBuiltin(f"import {package}.utils._pytree as pytree", pytree),
        })
    return _registered


def register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Make `obj` available to generated code as `name`; no graph value may then take that name."""
    custom_builtins()[name] = CustomBuiltin(import_str, obj)


class Namespace:
    """Gives each object a unique name that is a valid Python identifier.

    >>> names = Namespace()
    >>> names.create_name("add", None), names.create_name("add", None)
    ('add', 'add_1')
    """

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return a unique name close to the candidate; an object keeps its first name."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        match = _NUMBERED.match(candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, None)
        if number is None or candidate in self._used_names:
            number = self._base_count[base]
            if self._is_illegal_name(candidate, obj):
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used_names:
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Record the name of an object. AssertionError if it already has another."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    def _is_illegal_name(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in vars(builtins):
            return obj is not vars(builtins)[name]
        custom = custom_builtins().get(name)
        return custom is not None and obj is not custom.obj
