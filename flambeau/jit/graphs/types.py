"""Types of values in graphs, under the names that annotations and that graphs have for them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

__all__ = ["IRType", "TensorType", "split_type"]

_PLAIN = {"int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
          "complex": "ComplexType", "Tensor": "TensorType", "NoneType": "NoneType",
          "Any": "AnyType", "Device": "DeviceObjType", "number": "NumberType",
          "Function": "FunctionType", "Generator": "GeneratorType"}
_GENERIC = {"List": "ListType", "Dict": "DictType", "Tuple": "TupleType", "Future": "FutureType",
            "Optional": "OptionalType", "Union": "UnionType", "Await": "AwaitType"}
_IMMUTABLE = frozenset(("int", "float", "bool", "str", "complex", "NoneType", "Device", "number",
                        "Function", "Generator"))


Text = str  # within the class that has a method of this name


class IRType:
    """A type; `text`: as archives write it, such as List[int]."""

    def __init__(self, text: Text, enums: frozenset[str] = frozenset()) -> None:
        self.annotation_str, self._enums = text, enums

    def kind(self) -> Text:
        """Return TorchScript's name of the type's class."""
        head = self.annotation_str.partition("[")[0]
        return "EnumType" if head in self._enums else \
            _PLAIN.get(head) or _GENERIC.get(head, "ClassType")

    def __str__(self) -> Text:
        return _write_text(self.annotation_str)

    def show(self) -> Text:
        """Return the type as graphs show it: List[int] is int[]."""
        return _format_text(self.annotation_str, self._enums)

    def containedTypes(self) -> list[IRType]:  # PyTorch's name
        """Return the types of a container's elements."""
        return [self.derive(part) for part in split_type(self.annotation_str)[1]]

    def getElementType(self) -> IRType:  # PyTorch's name
        """Return the type of a list's elements, or of an Optional's value."""
        return self.containedTypes()[0]

    def elements(self) -> list[IRType]:
        """Return the types of a tuple's elements."""
        return self.containedTypes()

    def derive(self, text: Text) -> IRType:
        """Return another type of the same program."""
        return IRType(text, self._enums)

    def is_mutable(self) -> bool:
        """Return whether a value may be changed in place, or hold one that may."""
        head, inner = split_type(self.annotation_str)
        if head in ("Tuple", "Optional", "Union"):
            return any(self.derive(part).is_mutable() for part in inner)
        return head not in _IMMUTABLE and head not in self._enums

    def isSubtypeOf(self, other: IRType) -> bool:  # PyTorch's name
        """Return whether values of this type are values of another."""
        head, inner = split_type(other.annotation_str)
        if head == "Optional":
            inner = [*inner, "NoneType"]
        if head in ("Optional", "Union"):
            mine = split_type(self.annotation_str)
            parts = mine[1] if mine[0] == "Union" else [*mine[1], "NoneType"] \
                if mine[0] == "Optional" else [self.annotation_str]
            return all(any(self.derive(p).isSubtypeOf(self.derive(o)) for o in inner)
                       for p in parts)
        return head == "Any" or self == other

    def kind_of_tensor(self) -> TensorType | None:
        """Return what is known of a tensor; None for a type without sizes."""
        return None

    def sizes(self) -> list[int] | None:
        """Return a tensor's sizes: unknown."""
        return None

    def strides(self) -> list[int] | None:
        """Return a tensor's strides: unknown."""
        return None

    def dim(self) -> int | None:
        """Return a tensor's number of axes: unknown."""
        return None

    def dtype(self) -> Any:
        """Return a tensor's dtype: unknown."""
        return None

    def device(self) -> Any:
        """Return a tensor's device: unknown."""
        return None

    def scalarType(self) -> Any:  # PyTorch's name
        """Return the name of a tensor's dtype: unknown."""
        return None

    def str(self) -> Text:
        """Return the type as graphs show it."""
        return self.show()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IRType) and _write_text(
            self.annotation_str) == _write_text(other.annotation_str)

    def __hash__(self) -> int:
        return hash(_write_text(self.annotation_str))


class TensorType(IRType):
    """The type of a tensor of which sizes, strides, dtype and device are known."""

    def __init__(self, value: Any) -> None:
        super().__init__("Tensor")
        self._sizes = [int.__add__(size, 0) for size in value.shape]  # of the example
        self._dtype, self._device = value.dtype, value.device
        is_strided = str(value.layout) == "torch.strided"
        self._strides: Sequence[int] | None = [
            int.__add__(step, 0) for step in value.stride()] if is_strided else None
        self._requires_grad = bool(value.requires_grad)
        self._name = value.type().split(".")[-1].removesuffix("Tensor")

    def kind_of_tensor(self) -> TensorType | None:
        """Return what is known of the tensor."""
        return self

    def sizes(self) -> list[int] | None:
        """Return the sizes."""
        return self._sizes

    def strides(self) -> list[int] | None:
        """Return the strides."""
        return None if self._strides is None else list(self._strides)

    def dim(self) -> int | None:
        """Return the number of axes."""
        return len(self._sizes)

    def dtype(self) -> Any:
        """Return the dtype."""
        return self._dtype

    def device(self) -> Any:
        """Return the device."""
        return self._device

    def scalarType(self) -> str:  # PyTorch's name
        """Return the name of the dtype, such as Float."""
        return self._name

    def show(self) -> str:
        """Return the type as graphs show it."""
        parts = [str(size) for size in self._sizes]
        if self._strides is not None:
            parts.append(f"strides=[{', '.join(map(str, self._strides))}]")
        parts += [f"requires_grad={int(self._requires_grad)}", f"device={self._device}"]
        return f"{self._name}({', '.join(parts)})"

    def requires_grad(self) -> bool:
        """Return whether the tensor required gradients."""
        return self._requires_grad


@cache
def split_type(text: str) -> tuple[str, list[str]]:
    """Return the head of a type and the texts of its parts: List[int] is ("List", ["int"])."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Subscript):
        return ("NoneType" if isinstance(node, ast.Constant) and node.value is None
                else ast.unparse(node)), []
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return ast.unparse(node.value), [ast.unparse(part) for part in parts]


@cache
def _write_text(text: str) -> str:
    return _write(ast.parse(text, mode="eval").body)


@cache
def _format_text(text: str, enums: frozenset[str]) -> str:
    return _format(ast.parse(text, mode="eval").body, enums)


def _write(node: ast.expr) -> str:
    """Return a type as annotations have it, unions in order and without repetition."""
    if not isinstance(node, ast.Subscript):
        return "NoneType" if isinstance(node, ast.Constant) else ast.unparse(node)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    head, inner = ast.unparse(node.value), [_write(part) for part in parts]
    if head != "Union" and not (head == "Optional" and inner[0].startswith("Union[")):
        return f"{head}[{', '.join(inner)}]"
    if head == "Optional":
        inner.append("NoneType")
    text = _format_union([f"Union({part[6:-1]})" if part.startswith("Union[") else
                          f"{part[9:-1]}?" if part.startswith("Optional[") else part
                          for part in inner])
    if text.startswith("Union("):
        return f"Union[{text[6:-1]}]"
    return f"Optional[{text[:-1]}]" if text.endswith("?") else text


def _format(node: ast.expr, enums: frozenset[str]) -> str:
    """Return a type as graphs show it."""
    if not isinstance(node, ast.Subscript):
        name = "NoneType" if isinstance(node, ast.Constant) else ast.unparse(node)
        return f"Enum<{name}>" if name in enums else name
    head = ast.unparse(node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    inner = [_format(part, enums) for part in parts]
    if head == "List":
        return f"{inner[0]}[]"
    if head == "Optional":
        return _format_union([*inner, "NoneType"])
    if head == "Tuple":
        return f"({', '.join(inner)})"
    if head == "Union":
        return _format_union(inner)
    return f"{head}({', '.join(inner)})"


def _format_union(inner: list[str]) -> str:
    """Return a union without nested and repeated parts, and without parts of other parts."""
    flat: list[str] = []
    for part in inner:
        if part.startswith("Union("):
            flat += part[6:-1].split(", ")
        elif part.endswith("?"):
            flat += [part[:-1], "NoneType"]
        else:
            flat.append(part)
    unique = sorted(dict.fromkeys(flat), key=str.lower)
    unique = [p for p in unique if not any(p != q and p == q.replace("?", "") for q in unique)]
    if len(unique) == 1:
        return unique[0]
    if len(unique) == 2 and "NoneType" in unique:
        return next(p for p in unique if p != "NoneType") + "?"
    return f"Union({', '.join(unique)})"
