"""Write a loaded module back to an archive: its original code and its current state."""

from __future__ import annotations

import ast
from enum import Enum
from typing import Any

from ...torchscript.definitions import ClassType
from ...torchscript.objects import ScriptObject
from ...torchscript.script_module import LoadedModule
from .archive import Call, Instance, Tagged, drop_state, write

__all__ = ["find_archived_value", "save"]


def save(module: LoadedModule, file: Any,
         extra_files: dict[str, Any] | None = None, is_frozen: bool = False) -> None:
    """Write the archive; if `is_frozen`, without parameters and buffers."""
    program = module._flambeau_type.program
    root = find_archived_value(module)
    code = drop_state(program.texts()) if is_frozen else program.texts()
    write(file, root, code, list(program.constants), extra_files)


def find_archived_value(module: LoadedModule) -> Any:
    """Return the object of a loaded module with its current state."""
    return _Values(module._flambeau_type.program.classes()).value(module, None)


class _Values:
    """Converts interpreter values to what the pickler supports. Preserves sharing."""

    def __init__(self, classes: list[ClassType]) -> None:
        self._names = {c.python: c.qualified_name for c in classes if c.python is not None}
        self._seen: dict[int, Instance] = {}

    def value(self, value: Any, kind: ast.expr | None) -> Any:
        """Convert a value; `kind` is its declared type, if any."""
        if isinstance(value, (LoadedModule, ScriptObject)):
            return self._convert_object(value)
        if isinstance(value, Enum):
            return Call(self._names[type(value)], value.value)
        if isinstance(value, tuple) and type(value) in self._names:
            return Call(self._names[type(value)], tuple(self.value(v, None) for v in value))
        inner = _inner(kind)
        if isinstance(value, (list, dict)) and kind is not None:
            text = ast.unparse(_strip_optional(kind))
            if isinstance(value, list):
                return Tagged([self.value(v, inner[0] if inner else None) for v in value], text)
            return Tagged({k: self.value(v, inner[1] if inner else None)
                           for k, v in value.items()}, text)
        if isinstance(value, tuple):
            kinds = inner if len(inner) == len(value) else [None] * len(value)
            return tuple(self.value(v, k) for v, k in zip(value, kinds, strict=True))
        return value

    def _convert_object(self, value: Any) -> Instance:
        known = self._seen.get(id(value))
        if known is None:
            kind = value._flambeau_type
            known = self._seen[id(value)] = Instance(kind.qualified_name)
            if {"__getstate__", "__setstate__"} <= kind.methods.keys():
                known.attributes = self.value(kind.methods["__getstate__"](value), None)
                return known
            for name, annotation in kind.attributes.items():
                if name not in kind.constants:
                    known.attributes[name] = self.value(value._flambeau_get(name), annotation)
        return known


def _strip_optional(kind: ast.expr) -> ast.expr:
    """Strip Optional from a type."""
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Optional":
        return kind.slice
    return kind


def _inner(kind: ast.expr | None) -> list[Any]:
    """Return the element types of a container type."""
    if kind is None:
        return []
    kind = _strip_optional(kind)
    if not isinstance(kind, ast.Subscript):
        return []
    return list(kind.slice.elts) if isinstance(kind.slice, ast.Tuple) else [kind.slice]
