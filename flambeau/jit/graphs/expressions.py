"""Expressions of TorchScript's code as nodes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .definitions import Definitions
from .nodes import Graph, Node, Value
from .refinement import decide_none
from .types import IRType, split_type

__all__ = ["Expressions"]

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "__is__", ast.IsNot: "__isnot__", ast.In: "__contains__", ast.NotIn: "__contains__",
}
_METHODS: dict[type, str] = {  # of script classes
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
    ast.Mod: "__mod__", ast.Pow: "__pow__", ast.FloorDiv: "__floordiv__", ast.Eq: "__eq__",
    ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__",
    ast.MatMult: "__matmul__", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    ast.LShift: "__lshift__", ast.RShift: "__rshift__",
}
_PROPERTIES = {"shape": ("aten::size", "List[int]"), "ndim": ("aten::dim", "int"),
               "dtype": ("prim::dtype", "int"), "device": ("prim::device", "Device"),
               "is_cuda": ("prim::is_cuda", "bool"),
               "requires_grad": ("prim::requires_grad", "bool"),
               "T": ("aten::numpy_T", "Tensor"), "data": ("prim::data", "Tensor"),
               "grad": ("prim::grad", "Optional[Tensor]")}


class Expressions:
    """Adds the nodes of expressions to a graph or block."""

    def __init__(self, definitions: Definitions, inlines: bool, is_strict: bool = False) -> None:
        self.definitions, self.inlines, self._is_strict = definitions, inlines, is_strict
        self.graph = Graph()
        self.place: Any = self.graph
        self.names: dict[str, Value] = {}
        self._count = 0
        self._used: dict[str, int] = {}
        self._constants: dict[tuple[str, str], Value] = {}
        self._objects: dict[int, Value] = {}  # constants by id

    def call_method(self, owner: Value, name: str, arguments: list[Value],
                    keywords: dict[str, Value] | None = None) -> Value:
        """Add a call of a method: one of the program, or an operator."""
        raise NotImplementedError

    def add_operator(self, name: str, arguments: list[Value], keywords: dict[str, Value],
                     is_known: bool = True) -> Value:
        """Add an operator of aten, with its default arguments if its schema is known."""
        raise NotImplementedError

    def note_inexact(self, is_inexact: bool, name: str) -> None:
        """Refuse an operator with results of an unknown type, if the graph is to be run."""
        if is_inexact and self._is_strict:
            raise NotImplementedError(f"the type of {name} in a graph")

    # ---------------------------------------------------------------- nodes

    def kind(self, text: str) -> IRType:
        """Return a type."""
        return IRType(text, self.definitions.enums)

    def add(self, kind: str, arguments: list[Value], result: str | None,
            settings: dict[str, Any] | None = None) -> Value:
        """Add a node; return its result, of the type `result`, or a value without type if ""."""
        node = Node(kind, self.place, settings)
        node.arguments = arguments
        value = Value(self.fresh(), self.kind(result or "Tensor"), node)
        if result != "":
            node.results.append(value)
        self.place.body.append(node)
        return value

    def fresh(self, name: str = "") -> str:
        """Return an unused name."""
        if not name:
            self._count += 1
            return str(self._count)
        number = self._used[name] = self._used.get(name, 0) + 1
        return f"{name}.{number}"

    def constant(self, value: Any, kind: str, shown: Any = None) -> Value:
        """Return a constant, of which the graph has one at its start."""
        key = (kind, type(value).__name__ + repr(value))
        if key not in self._constants:
            attributes = {} if value is None else {"value": value if shown is None else shown}
            node = Node("prim::Constant", self.graph, attributes)
            node.constant = value
            node.results.append(Value(self.fresh(), self.kind(kind), node))
            self.graph.body.insert(len(self._constants), node)
            self._constants[key] = node.results[0]
        return self._constants[key]

    def branch(self, condition: Value, ways: list[Callable[[], list[Value]]]) -> list[Value]:
        """Add prim::If, or only the way that a constant condition leads; return the results."""
        if isinstance(condition.toIValue(), bool):
            return ways[0 if condition.toIValue() else 1]()
        node = Node("prim::If", self.place)
        node.arguments = [condition]
        self.place.body.append(node)
        outer, names = self.place, dict(self.names)
        for way in ways:
            self.place, self.names = node.addBlock(), dict(names)
            self.place.results = way()
        self.place, self.names = outer, names
        first, second = (block.results for block in node.blocks())
        node.results = [Value(self.fresh(), a.type() if a.type() == b.type() else self.kind(
            unify_types([a.type().annotation_str, b.type().annotation_str])), node)
            for a, b in zip(first, second, strict=True)]
        return node.results

    # ---------------------------------------------------------------- expressions

    def visit(self, node: ast.expr) -> Value:
        """Return an expression's value."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotImplementedError(f"{type(node).__name__} in a graph")
        result: Value = method(node)
        return result

    def _constant(self, node: ast.Constant) -> Value:
        kind = "NoneType" if node.value is None else type(node.value).__name__
        return self.constant(node.value, kind)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in ("inf", "nan"):
            return self.constant(float(node.id), "float")
        raise NotImplementedError(f"the name {node.id} in a graph")

    def _attribute(self, node: ast.Attribute) -> Value:
        path = ast.unparse(node)
        member = self.definitions.find_member_value(path)
        if member is not None:
            return self.constant(path, path.rpartition(".")[0], path)
        if path.startswith("CONSTANTS."):
            number = int(node.attr[1:])
            if number < len(self.definitions.constants):
                return self.add_value(self.definitions.constants[number], "Tensor")
            return self.constant(path, "Tensor", "<Tensor>")
        return self.read_attribute(self.visit(node.value), node.attr)

    def add_value(self, value: Any, kind: str) -> Value:
        """Add a constant that is no literal, such as a tensor."""
        if id(value) not in self._objects:
            node = self.graph.create_constant(value, self.kind(kind))
            node.results[0]._name = self.fresh()
            self.graph.body.insert(len(self._constants), node)
            self._objects[id(value)] = node.results[0]
        return self._objects[id(value)]

    def read_attribute(self, owner: Value, name: str) -> Value:
        """Add the read of an attribute."""
        kind = owner.type().annotation_str
        if owner.instance is not None:
            kind = owner.instance._flambeau_type.qualified_name
        if kind in self.definitions.enums:
            operator = {"name": "prim::EnumName", "value": "prim::EnumValue"}[name]
            return self.add(operator, [owner], _find_enum_type(self.definitions, kind, name))
        if kind in ("Tensor", "Device"):
            operator, result = _PROPERTIES.get(name, (f"prim::{name}", "Tensor"))
            if kind == "Device":
                result = "str" if name == "type" else "Optional[int]"
            return self.add(operator, [owner], result)
        fields = self.definitions.list_fields(kind)
        if fields is not None:  # of a named tuple
            number = self.constant(list(fields).index(name), "int")
            return self.add("prim::TupleIndex", [owner, number], fields[name])
        declared = self.definitions.find_attribute(kind, name)
        self.note_inexact(declared is None, f"{kind}.{name}")
        value = self.add("prim::GetAttr", [owner], declared or "Tensor", {"name": name})
        shown = f"_{name}" if name[:1].isdigit() else name
        value._name = shown if shown not in self._used else self.fresh(shown)
        self._used.setdefault(shown, 0)
        self.resolve_instance(value, owner, name)
        return value

    def resolve_instance(self, value: Value, owner: Value, name: str) -> None:
        """Note which object an attribute is, where that is known."""

    def _binop(self, node: ast.BinOp) -> Value:
        return self.operate(type(node.op), self.visit(node.left), self.visit(node.right))

    def operate(self, operator: type[ast.operator], left: Value, right: Value,
                in_place: bool = False) -> Value:
        """Add an arithmetic operator."""
        kinds = [x.type().annotation_str.removeprefix("Optional[").removesuffix("]")
                 if x.type().kind() == "OptionalType" else x.type().annotation_str
                 for x in (left, right)]
        name = _OPERATORS[operator]
        if kinds[0] in self.definitions.classes:
            return self.call_method(left, _METHODS[operator], [right])
        if kinds[0] == "str" and operator is ast.Mod:
            return self.add("aten::percentFormat", [left, right], "str")
        suffix = "_" if in_place and kinds[0].startswith(("Tensor", "List[")) else ""
        if "Tensor" in kinds:
            name = {"floordiv": "floor_divide"}.get(name, name) if in_place else name
            return self.add_operator(f"{name}{suffix}", [left, right], {}, is_known=False)
        result = "float" if operator is ast.Div or "float" in kinds else kinds[0]
        if operator is ast.Mult and kinds[1].startswith(("List[", "str")):
            result = kinds[1]
        if operator is ast.Pow and "float" not in kinds:
            result = "number"
        if "complex" in kinds:
            result = "complex"
        return self.add(f"aten::{name}{suffix}", [left, right], result)

    def _compare(self, node: ast.Compare) -> Value:
        left, result = self.visit(node.left), None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.visit(right_node)
            if left.type().annotation_str in self.definitions.classes and type(
                    operator) in _METHODS and not self.definitions.is_plain(
                    left.type().annotation_str):
                return self.call_method(left, _METHODS[type(operator)], [right])
            operands = [right, left] if isinstance(operator, ast.In | ast.NotIn) else [left, right]
            is_tensor = "Tensor" in (left.type().annotation_str, right.type().annotation_str) \
                and not isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn)
            name = _OPERATORS[type(operator)]
            if isinstance(operator, ast.Is | ast.IsNot) and len(node.ops) == 1:
                known = decide_none(left.type(), right.type(), isinstance(operator, ast.IsNot))
                if known is not None:
                    return self.constant(known, "bool")
            test = self.add_operator(name, operands, {}, is_known=False) if is_tensor \
                else self.add(f"aten::{name}", operands, "bool")
            if isinstance(operator, ast.NotIn):
                test = self.add("aten::__not__", [test], "bool")
            result = test if result is None else self.add("aten::__and__", [result, test], "bool")
            left = right
        assert result is not None
        return result

    def _boolop(self, node: ast.BoolOp) -> Value:
        value = self.visit(node.values[0])
        for part in node.values[1:]:
            def evaluate(part: ast.expr = part) -> list[Value]:
                return [self.visit(part)]

            def skip() -> list[Value]:
                return [self.constant(isinstance(node.op, ast.Or), "bool")]

            ways = [evaluate, skip] if isinstance(node.op, ast.And) else [skip, evaluate]
            (value,) = self.branch(value, ways)
        return value

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            value: Any = node.operand.value
            return self.constant(-value, type(value).__name__)
        value = self.visit(node.operand)
        kind = value.type().annotation_str
        if kind in self.definitions.classes and not isinstance(node.op, ast.Not):
            return self.call_method(value, "__neg__", [])
        if isinstance(node.op, ast.Not) and isinstance(value.toIValue(), bool):
            return self.constant(not value.toIValue(), "bool")
        name = {ast.Not: "__not__", ast.USub: "neg", ast.Invert: "bitwise_not",
                ast.UAdd: "positive"}[type(node.op)]
        return self.add(f"aten::{name}", [value],
                        "bool" if name == "__not__" else value.type().annotation_str)

    def _ifexp(self, node: ast.IfExp) -> Value:
        (value,) = self.branch(self.visit(node.test), [lambda: [self.visit(node.body)],
                                                       lambda: [self.visit(node.orelse)]])
        return value


def _find_enum_type(definitions: Definitions, kind: str, attribute: str) -> str:
    value = getattr(next(row for row in definitions.classes[kind].body
                         if isinstance(row, ast.Assign)), "value", None)
    return "str" if attribute == "name" else type(getattr(value, "value", "")).__name__


def unify_types(kinds: list[str]) -> str:
    """Return the type of a value that has one of several."""
    parts: list[str] = []
    for kind in kinds:
        head, inner = split_type(kind)
        parts += [*inner, "NoneType"] if head == "Optional" else inner if head == "Union" \
            else [kind]
    rest = [part for part in dict.fromkeys(parts) if part != "NoneType"]
    if "NoneType" in parts:
        return "NoneType" if not rest else f"Optional[{rest[0]}]" if len(rest) == 1 else \
            f"Union[{', '.join([*rest, 'NoneType'])}]"
    if len(rest) > 1 and set(rest) <= {"int", "float"}:
        return "float"
    return rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
