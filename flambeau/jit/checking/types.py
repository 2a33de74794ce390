"""TorchScript's types as a lattice, with UNKNOWN for what the checker cannot tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "ANY", "BOOL", "COMPLEX", "DEVICE", "FLOAT", "INT", "NONE", "NUMBERS", "STR", "TENSOR",
    "UNKNOWN", "Kind", "accepts_argument", "fits", "format_annotation", "format_schema", "is_known",
    "make_dict", "make_list", "make_optional", "make_tuple", "make_union", "unify",
]


@dataclass(frozen=True)
class Kind:
    """A type: a constructor's name and its arguments; for classes, the Python class."""

    name: str
    inner: tuple[Kind, ...] = ()
    python: Any = None
    is_inferred: bool = field(default=False, compare=False)  # a parameter without annotation

    def __str__(self) -> str:
        if self.name == "Union" and NONE in self.inner and len(self.inner) == 2:
            return f"Optional[{next(k for k in self.inner if k != NONE)}]"
        if self.inner and self.python is None:
            return f"{self.name}[{', '.join(map(str, self.inner))}]"
        return f"{self.name} (inferred)" if self.is_inferred else self.name


def format_schema(kind: Kind) -> str:
    """Return a type as schemas show it: `int[]`, `Tensor?`, `(int, str)`, `Dict(str, int)`."""
    inner = [format_schema(part) for part in kind.inner]
    if kind.python is not None:
        return kind.name
    if kind.name == "Union" and NONE in kind.inner and len(kind.inner) == 2:
        return f"{inner[kind.inner[0] == NONE]}?"
    if kind.name == "List":
        return f"{inner[0]}[]"
    if kind.name == "Tuple":
        return f"({', '.join(inner)})"
    return f"{kind.name}({', '.join(inner)})" if inner else kind.name


def format_annotation(kind: Kind) -> str:
    """Return a type as annotations show it: an enum by its class."""
    inner = f"[{', '.join(map(format_annotation, kind.inner))}]" if kind.inner else ""
    name = kind.name.removeprefix("Enum<").removesuffix(">")
    return name if kind.python is not None else f"{name}{inner}"


UNKNOWN = Kind("?")
ANY, TENSOR, NONE, DEVICE = Kind("Any"), Kind("Tensor"), Kind("NoneType"), Kind("Device")
INT, FLOAT, BOOL, COMPLEX, STR = map(Kind, ("int", "float", "bool", "complex", "str"))
NUMBERS = (INT, FLOAT, BOOL, COMPLEX)


def make_list(element: Kind) -> Kind:
    """Return the type of a list."""
    return Kind("List", (element,))


def make_tuple(*elements: Kind) -> Kind:
    """Return the type of a tuple."""
    return Kind("Tuple", elements)


def make_dict(key: Kind, value: Kind) -> Kind:
    """Return the type of a dictionary."""
    return Kind("Dict", (key, value))


def make_union(*members: Kind) -> Kind:
    """Return the smallest union of types; a single one stays itself."""
    flat = dict.fromkeys(inner for member in members for inner in (
        member.inner if member.name == "Union" else (member,)))
    if UNKNOWN in flat:
        return UNKNOWN
    return next(iter(flat)) if len(flat) == 1 else Kind("Union", tuple(sorted(flat, key=_rank)))


# The order in which PyTorch's unions list their members.
_ORDER = ("Any", "Enum", "Tensor", "Tuple", "List", "Dict", "number", "float", "complex", "Future",
          "Await", "int", "NoneType", "str", "Generator", "bool", "Device")


def _rank(kind: Kind) -> int:
    name = kind.name.partition("<")[0]
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def make_optional(kind: Kind) -> Kind:
    """Return Optional[kind]."""
    return make_union(kind, NONE)


def is_known(kind: Kind) -> bool:
    """Return whether no part of a type is unknown."""
    return kind.name != "?" and all(map(is_known, kind.inner))


def fits(value: Kind, target: Kind) -> bool:
    """Return False if a value of one type is certainly not of another."""
    if value == target or target == ANY or "?" in (value.name, target.name):
        return True
    if value.name == "Union":
        return all(fits(member, target) for member in value.inner)
    if target.name == "Union":
        return any(fits(value, member) for member in target.inner)
    if target.name == "number":
        return value in (INT, FLOAT, COMPLEX)
    if value.python is not None or target.python is not None:
        return _accepts_class(value, target)
    if value.name != target.name:
        return False
    if value.name in ("Tuple", "Future", "Await"):
        return len(value.inner) == len(target.inner) and all(
            map(fits, value.inner, target.inner))
    return all(fits(a, b) and fits(b, a) for a, b in zip(value.inner, target.inner, strict=True))


def _accepts_class(value: Kind, target: Kind) -> bool:
    """Compare types of which at least one is a class; interfaces are compared elsewhere."""
    if isinstance(value.python, type) and isinstance(target.python, type):
        is_interface = hasattr(target.python, "_torchscript_interface")
        return is_interface or issubclass(value.python, target.python)
    tuples = [k for k in (value, target) if k.name == "Tuple" or k.inner]
    if len(tuples) == 2:  # a named tuple is a tuple
        return len(value.inner) == len(target.inner) and all(
            map(fits, value.inner, target.inner))
    return False


def accepts_argument(value: Kind, target: Kind) -> bool:
    """Like `fits`, with the conversions of a call: tensors to numbers, tuples to lists."""
    if fits(value, target):
        return True
    if target.name == "Union":
        return any(accepts_argument(value, member) for member in target.inner)
    if value == TENSOR:
        return target in (INT, FLOAT, COMPLEX) or target.name == "number"
    if target.name == "List" and value.name == "Tuple":
        return all(fits(element, target.inner[0]) for element in value.inner)
    return value == STR and target == DEVICE


def unify(first: Kind, second: Kind) -> Kind | None:
    """Return the type of a variable set to either of two, or None if there is none."""
    if first == second:
        return first
    if not is_known(first) or not is_known(second):
        return UNKNOWN
    if NONE in (first, second):
        return make_union(first, second)
    if fits(first, second):
        return second
    if fits(second, first):
        return first
    if first.name == second.name == "Tuple" and len(first.inner) == len(second.inner):
        parts = [unify(a, b) for a, b in zip(first.inner, second.inner, strict=True)]
        return None if None in parts else make_tuple(*(p for p in parts if p is not None))
    simple = all(kind in (*NUMBERS, STR, TENSOR) for kind in (first, second))
    return None if simple else UNKNOWN
