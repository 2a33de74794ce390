"""TorchScript's type expressions (`Optional[Tensor]`, `List[int]`, `__torch__.Pair`).

They stay syntax trees, used only for type tests of values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from enum import Enum
from typing import Any

from ...tensor.devices import device
from ...tensor.random.generator import Generator
from ...tensor.tensor import Tensor

__all__ = ["format_dotted_path", "is_instance"]

_PLAIN: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, Tensor), "str": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool), "float": lambda v: isinstance(v, float),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "complex": lambda v: isinstance(v, complex), "Any": lambda v: True,
    "number": lambda v: isinstance(v, (int, float, complex)) and not isinstance(v, bool),
    "NoneType": lambda v: v is None, "None": lambda v: v is None,
    "Device": lambda v: isinstance(v, device), "Generator": lambda v: isinstance(v, Generator),
    "list": lambda v: isinstance(v, list), "tuple": lambda v: isinstance(v, tuple),
    "dict": lambda v: isinstance(v, dict), "List": lambda v: isinstance(v, list),
    "Tuple": lambda v: isinstance(v, tuple), "Dict": lambda v: isinstance(v, dict),
    "AnyClassType": lambda v: True, "AnyEnumType": lambda v: isinstance(v, Enum),
}


def format_dotted_path(node: ast.expr) -> str | None:
    """Return `a.b.c` as text, or None for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


def is_instance(value: Any, kind: ast.expr, class_of: Callable[[str], Any]) -> bool:
    """Return whether a value has a type. `class_of` looks up the archive's classes.

    An empty container matches any element type.
    """
    if isinstance(kind, (ast.Tuple, ast.List)):
        return any(is_instance(value, k, class_of) for k in kind.elts)
    if isinstance(kind, ast.Constant) and kind.value is None:
        return value is None
    if isinstance(kind, ast.Subscript):
        name = format_dotted_path(kind.value) or ""
        inner = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        return _is_generic(value, name, inner, class_of)
    path = format_dotted_path(kind) or ""
    if path.startswith("__torch__."):
        return bool(class_of(path).is_type_of(value))
    test = _PLAIN.get(path.rpartition(".")[2])
    if test is None:
        raise NotImplementedError(f"TorchScript's type {ast.unparse(kind)}")
    return test(value)


def _is_generic(value: Any, name: str, inner: list[ast.expr], class_of: Any) -> bool:
    def all_are(values: Any, kind: ast.expr) -> bool:
        return all(is_instance(v, kind, class_of) for v in values)

    if name == "List":
        return isinstance(value, list) and all_are(value, inner[0])
    if name == "Dict":
        return isinstance(value, dict) and all_are(value, inner[0]) and \
            all_are(value.values(), inner[1])
    if name == "Tuple":
        return isinstance(value, tuple) and len(value) == len(inner) and all(
            is_instance(v, k, class_of) for v, k in zip(value, inner, strict=True))
    if name == "Optional":
        return value is None or is_instance(value, inner[0], class_of)
    if name == "Union":
        return any(is_instance(value, kind, class_of) for kind in inner)
    if name == "Final":
        return is_instance(value, inner[0], class_of)
    raise NotImplementedError(f"TorchScript's type {name}")
