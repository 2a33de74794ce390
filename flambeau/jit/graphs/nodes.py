"""Graphs, blocks, nodes and values of scripted programs, printed as TorchScript prints them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

__all__ = ["Block", "Graph", "IRType", "Node", "Value"]

_PLAIN = {"int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
          "complex": "ComplexType", "Tensor": "TensorType", "NoneType": "NoneType",
          "Any": "AnyType", "Device": "DeviceObjType", "number": "NumberType",
          "Function": "FunctionType"}
_GENERIC = {"List": "ListType", "Dict": "DictType", "Tuple": "TupleType", "Future": "FutureType",
            "Optional": "OptionalType", "Union": "UnionType"}


class IRType:
    """A type; `text`: as archives write it, such as List[int]."""

    def __init__(self, text: str, enums: frozenset[str] = frozenset()) -> None:
        self.annotation_str, self._enums = text, enums

    def kind(self) -> str:
        """Return TorchScript's name of the type's class."""
        head = self.annotation_str.partition("[")[0]
        return "EnumType" if head in self._enums else \
            _PLAIN.get(head) or _GENERIC.get(head, "ClassType")

    def __str__(self) -> str:
        return _write(self._parse())

    def show(self) -> str:
        """Return the type as graphs show it: List[int] is int[]."""
        return _format(self._parse(), self._enums)

    def _parse(self) -> ast.expr:
        return ast.parse(self.annotation_str, mode="eval").body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IRType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


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


class Value:
    """An input or result of nodes."""

    def __init__(self, name: str, kind: IRType, node: Node) -> None:
        self._name, self._kind, self._node = name, kind, node

    def debugName(self) -> str:  # PyTorch's name
        """Return the name in the graph, without its %."""
        return self._name

    def type(self) -> IRType:
        """Return the type."""
        return self._kind

    def node(self) -> Node:
        """Return the node that computes the value."""
        return self._node

    def toIValue(self) -> Any:  # PyTorch's name
        """Return a constant's value, or None."""
        return self._node.constant

    def __repr__(self) -> str:
        return f"{self._name} defined in ({self._node})"


class _Sequence:
    """Nodes in order, with the inputs and results of the whole."""

    def __init__(self, owner: Node | None) -> None:
        self._owner = owner
        self.parameters = Node("prim::Param", self)
        self.body: list[Node] = []
        self.results: list[Value] = []

    def nodes(self) -> Iterator[Node]:
        """Return the nodes."""
        return iter(self.body)

    def inputs(self) -> Iterator[Value]:
        """Return the values passed in."""
        return iter(self.parameters.results)

    def outputs(self) -> Iterator[Value]:
        """Return the values passed out."""
        return iter(self.results)

    def return_node(self) -> Node:
        """Return the node that takes the results."""
        node = Node("prim::Return", self)
        node.arguments = list(self.results)
        return node

    returnNode = return_node  # PyTorch's name

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:  # PyTorch's name
        """Return the first node of a kind, or None."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:  # PyTorch's name
        """Return the nodes of a kind, in order."""
        result = []
        for node in self.body:
            if node.kind() == kind:
                result.append(node)
            if recurse:
                for block in node.blocks():
                    result += block.findAllNodes(kind)
        return result


class Block(_Sequence):
    """A branch or loop body."""

    def owningNode(self) -> Node | None:  # PyTorch's name
        """Return the node that the block belongs to."""
        return self._owner

    def lines(self, number: int, indent: str) -> Iterator[str]:
        """Return the lines of the block, which is its node's `number`th."""
        inputs = ", ".join(f"%{v.debugName()} : {v.type().show()}" for v in self.inputs())
        yield f"{indent}block{number}({inputs}):"
        for node in self.body:
            yield from node.lines(indent + "  ")
        yield f"{indent}  -> ({', '.join('%' + v.debugName() for v in self.results)})"


class Graph(_Sequence):
    """A function or method."""

    def __init__(self) -> None:
        super().__init__(None)

    def __str__(self) -> str:
        inputs = ",\n      ".join(f"%{v.debugName()} : {v.type().show()}" for v in self.inputs())
        lines = [f"graph({inputs}):", *(line for node in self.body for line in node.lines("  ")),
                 f"  return ({', '.join('%' + v.debugName() for v in self.results)})"]
        return "\n".join(lines) + "\n"

    __repr__ = __str__


class Node:
    """An operator, call or branch."""

    def __init__(self, kind: str, place: _Sequence,
                 attributes: dict[str, Any] | None = None) -> None:
        self._kind, self._place, self.attributes = kind, place, attributes or {}
        self.arguments: list[Value] = []
        self.results: list[Value] = []
        self._blocks: list[Block] = []
        self.constant: Any = None

    def kind(self) -> str:
        """Return the name, such as aten::add."""
        return self._kind

    def inputs(self) -> Iterator[Value]:
        """Return the arguments."""
        return iter(self.arguments)

    def outputs(self) -> Iterator[Value]:
        """Return the results."""
        return iter(self.results)

    def output(self) -> Value:
        """Return the only result."""
        (value,) = self.results
        return value

    def inputsSize(self) -> int:  # PyTorch's name
        """Return the number of arguments."""
        return len(self.arguments)

    def outputsSize(self) -> int:  # PyTorch's name
        """Return the number of results."""
        return len(self.results)

    def blocks(self) -> Iterator[Block]:
        """Return the branches, or the loop's body."""
        return iter(self._blocks)

    def addBlock(self) -> Block:  # PyTorch's name
        """Add and return a branch."""
        self._blocks.append(Block(self))
        return self._blocks[-1]

    def owningBlock(self) -> Any:  # PyTorch's name
        """Return the block or graph that holds the node."""
        return self._place

    def attributeNames(self) -> list[str]:  # PyTorch's name
        """Return the names of the attributes."""
        return list(self.attributes)

    def hasAttribute(self, name: str) -> bool:  # PyTorch's name
        """Return whether there is an attribute."""
        return name in self.attributes

    def s(self, name: str) -> str:
        """Return an attribute that is a text."""
        return str(self.attributes[name])

    def i(self, name: str) -> int:
        """Return an attribute that is a number."""
        return int(self.attributes[name])

    def scopeName(self) -> str:  # PyTorch's name
        """Return "": scripts have no scopes."""
        return ""

    def lines(self, indent: str) -> Iterator[str]:
        """Return the node's lines and those of its blocks."""
        yield f"{indent}{self._describe()}"
        for number, block in enumerate(self._blocks):
            yield from block.lines(number, indent + "  ")

    def _describe(self) -> str:
        results = ", ".join(f"%{v.debugName()} : {v.type().show()}" for v in self.results)
        settings = ", ".join(f"{k}={_quote(k, v)}" for k, v in self.attributes.items())
        arguments = ", ".join("%" + v.debugName() for v in self.arguments)
        return f"{results} = {self._kind}{f'[{settings}]' if settings else ''}({arguments})"

    def __repr__(self) -> str:
        return "\n".join(self.lines(""))


def _quote(name: str, value: Any) -> str:
    if isinstance(value, str) and name in ("name", "value") and not value.startswith("__torch__"):
        return '"' + value.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return str(int(value)) if isinstance(value, bool) else str(value)
