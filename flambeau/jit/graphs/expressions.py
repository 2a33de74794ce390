"""Expressions of TorchScript's code as nodes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .definitions import Definitions
from .nodes import Graph, IRType, Node, Value

__all__ = ["Expressions"]

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "__is__", ast.IsNot: "__isnot__", ast.In: "__contains__", ast.NotIn: "__contains__",
}
_PROPERTIES = {"shape": ("aten::size", "List[int]"), "ndim": ("aten::dim", "int"),
               "dtype": ("prim::dtype", "int"), "device": ("prim::device", "Device"),
               "is_cuda": ("prim::is_cuda", "bool"),
               "requires_grad": ("prim::requires_grad", "bool"),
               "T": ("aten::numpy_T", "Tensor"), "data": ("prim::data", "Tensor"),
               "grad": ("prim::grad", "Optional[Tensor]")}


class Expressions:
    """Adds the nodes of expressions to a graph or block."""

    def __init__(self, definitions: Definitions, inlines: bool) -> None:
        self.definitions, self.inlines = definitions, inlines
        self.graph = Graph()
        self.place: Any = self.graph
        self.names: dict[str, Value] = {}
        self._count = 0
        self._used: dict[str, int] = {}
        self._constants: dict[tuple[str, str], Value] = {}

    def call_method(self, owner: Value, name: str, arguments: list[Value]) -> Value:
        """Add a call of a method: one of the program, or an operator."""
        raise NotImplementedError

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
        key = (kind, repr(value))
        if key not in self._constants:
            attributes = {} if value is None else {"value": value if shown is None else shown}
            node = Node("prim::Constant", self.graph, attributes)
            node.constant = value
            node.results.append(Value(self.fresh(), self.kind(kind), node))
            self.graph.body.insert(len(self._constants), node)
            self._constants[key] = node.results[0]
        return self._constants[key]

    def branch(self, condition: Value, ways: list[Callable[[], list[Value]]]) -> list[Value]:
        """Add prim::If; return its results."""
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
            f"Optional[{b.type().annotation_str}]" if a.type().kind() == "NoneType" else
            f"Optional[{a.type().annotation_str}]" if b.type().kind() == "NoneType" else
            a.type().annotation_str), node) for a, b in zip(first, second, strict=True)]
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
            return self.constant(path, path.rpartition(".")[0])
        if path.startswith("CONSTANTS."):
            return self.constant(path, "Tensor", "<Tensor>")
        owner = self.visit(node.value)
        kind = owner.type().annotation_str
        if kind in self.definitions.enums:
            name = {"name": "prim::EnumName", "value": "prim::EnumValue"}[node.attr]
            return self.add(name, [owner], self._find_enum_type(kind, node.attr))
        if kind == "Tensor":
            operator, result = _PROPERTIES.get(node.attr, (f"prim::{node.attr}", "Tensor"))
            return self.add(operator, [owner], result)
        result = self.definitions.find_attribute(kind, node.attr) or "Tensor"
        value = self.add("prim::GetAttr", [owner], result, {"name": node.attr})
        value._name = node.attr if node.attr not in self._used else self.fresh(node.attr)
        self._used.setdefault(node.attr, 0)
        return value

    def _find_enum_type(self, kind: str, attribute: str) -> str:
        value = getattr(next(row for row in self.definitions.classes[kind].body
                             if isinstance(row, ast.Assign)), "value", None)
        return "str" if attribute == "name" else type(getattr(value, "value", "")).__name__

    def _binop(self, node: ast.BinOp) -> Value:
        return self.operate(type(node.op), self.visit(node.left), self.visit(node.right))

    def operate(self, operator: type[ast.operator], left: Value, right: Value,
                in_place: bool = False) -> Value:
        """Add an arithmetic operator."""
        kinds = [x.type().annotation_str.removeprefix("Optional[").removesuffix("]")
                 if x.type().kind() == "OptionalType" else x.type().annotation_str
                 for x in (left, right)]
        name, arguments = _OPERATORS[operator], [left, right]
        if "Tensor" in kinds:
            result = "Tensor"
            if name in ("add", "sub"):
                arguments.append(self.constant(1, "int"))
        else:
            result = "float" if operator is ast.Div or "float" in kinds else kinds[0]
        suffix = "_" if in_place and kinds[0] == "Tensor" else ""
        return self.add(f"aten::{name}{suffix}", arguments, result)

    def _compare(self, node: ast.Compare) -> Value:
        left, result = self.visit(node.left), None
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.visit(right_node)
            operands = [right, left] if isinstance(operator, ast.In | ast.NotIn) else [left, right]
            is_tensor = "Tensor" in (left.type().annotation_str, right.type().annotation_str) \
                and not isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn)
            test = self.add(f"aten::{_OPERATORS[type(operator)]}", operands,
                            "Tensor" if is_tensor else "bool")
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
        name = {ast.Not: "__not__", ast.USub: "neg", ast.Invert: "bitwise_not",
                ast.UAdd: "positive"}[type(node.op)]
        return self.add(f"aten::{name}", [value],
                        "bool" if name == "__not__" else value.type().annotation_str)

    def _ifexp(self, node: ast.IfExp) -> Value:
        (value,) = self.branch(self.visit(node.test), [lambda: [self.visit(node.body)],
                                                       lambda: [self.visit(node.orelse)]])
        return value

    def _list(self, node: ast.List) -> Value:
        parts = [self.visit(part) for part in node.elts]
        inner = parts[0].type().annotation_str if parts else "Tensor"
        return self.add("prim::ListConstruct", parts, f"List[{inner}]")

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = [self.visit(part) for part in node.elts]
        inner = ", ".join(part.type().annotation_str for part in parts)
        return self.add("prim::TupleConstruct", parts, f"Tuple[{inner}]" if parts else "Tuple[()]")

    def _dict(self, node: ast.Dict) -> Value:
        parts = [self.visit(part) for pair in zip(node.keys, node.values, strict=True)
                 for part in pair if part is not None]
        kinds = [part.type().annotation_str for part in parts[:2]] or ["str", "Tensor"]
        return self.add("prim::DictConstruct", parts, f"Dict[{', '.join(kinds)}]")

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = self.visit(node.value)
        kind = owner.type().annotation_str
        if kind == "Tensor":
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self._index(owner, items)
        if isinstance(node.slice, ast.Slice):
            return self.add("aten::slice", [owner, *self._bounds(node.slice)], kind)
        index = self.visit(node.slice)
        if kind.startswith("Tuple["):
            inner = ast.parse(kind, mode="eval").body.slice  # type: ignore[attr-defined]
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return self.add("prim::TupleIndex", [owner, index],
                            ast.unparse(parts[int(index.toIValue())]))
        if not kind.startswith(("List[", "Dict[", "str")):
            return self.call_method(owner, "__getitem__", [index])
        inner_kind = kind if kind == "str" else kind[5:-1].partition(", ")[2] \
            if kind.startswith("Dict") else kind[5:-1]
        return self.add("aten::__getitem__", [owner, index], inner_kind)

    def _bounds(self, part: ast.Slice) -> list[Value]:
        return [self.visit(x) if x is not None else self.constant(default, kind)
                for x, default, kind in ((part.lower, None, "NoneType"),
                                         (part.upper, None, "NoneType"), (part.step, 1, "int"))]

    def _index(self, owner: Value, items: list[ast.expr]) -> Value:
        """Index a tensor."""
        axis, tensors = 0, list[Value]()
        for item in items:
            number = self.constant(axis, "int")
            if isinstance(item, ast.Slice):
                owner = self.add("aten::slice", [owner, number, *self._bounds(item)], "Tensor")
                axis += 1
            elif isinstance(item, ast.Constant) and item.value is None:
                owner = self.add("aten::unsqueeze", [owner, number], "Tensor")
                axis += 1
            elif isinstance(item, ast.Constant) and item.value is Ellipsis:
                raise NotImplementedError("an ellipsis in a graph")
            else:
                value = self.visit(item)
                if value.type().annotation_str == "int":
                    owner = self.add("aten::select", [owner, number, value], "Tensor")
                else:
                    tensors.append(value)
        if tensors:
            indices = self.add("prim::ListConstruct", tensors, "List[Optional[Tensor]]")
            owner = self.add("aten::index", [owner, indices], "Tensor")
        return owner
