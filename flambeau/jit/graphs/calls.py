"""Calls of TorchScript's code as nodes: operators, functions, methods and objects."""

from __future__ import annotations

import ast

from .expressions import Expressions
from .nodes import Node, Value

__all__ = ["Calls"]

_BUILTINS = {"len": ("aten::len", "int"), "int": ("aten::Int", "int"),
             "float": ("aten::Float", "float"), "bool": ("aten::Bool", "bool"),
             "str": ("aten::str", "str"), "complex": ("aten::Complex", "complex"),
             "ord": ("aten::ord", "int"), "chr": ("aten::chr", "str"), "abs": ("prim::abs", None),
             "min": ("prim::min", None), "max": ("prim::max", None), "sum": ("aten::sum", None),
             "list": ("aten::list", None), "sorted": ("aten::sorted", None),
             "print": ("prim::Print", ""), "round": ("aten::round", None),
             "any": ("aten::any", "bool"), "all": ("aten::all", "bool"),
             "range": ("aten::__range", "List[int]"), "divmod": ("aten::divmod", "Tuple[int, int]")}
_OF_TENSORS = {"size": "List[int]", "dim": "int", "numel": "int", "item": "number",
               "is_floating_point": "bool", "tolist": "Any", "unbind": "List[Tensor]",
               "split": "List[Tensor]", "chunk": "List[Tensor]"}


class Calls(Expressions):
    """Adds the nodes of calls, or in their place those of the functions called."""

    def call_definition(self, function: ast.FunctionDef, arguments: list[Value]) -> Value:
        """Add the nodes of a function instead of its call."""
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Value:
        path = ast.unparse(node.func)
        if path == "annotate":
            return self._annotate(node)
        if path in ("isinstance", "unchecked_cast", "uninitialized"):
            return self._call_with_type(node, path)
        passed = [*node.args, *(keyword.value for keyword in node.keywords)]
        arguments = [self.visit(x) for x in passed]
        if path in _BUILTINS:
            name, result = _BUILTINS[path]
            first = arguments[0].type().annotation_str if arguments else "Tensor"
            return self.add(name, arguments, first if result is None else result)
        if path.startswith("torch."):
            name = path[6:].replace("linalg.", "linalg_")
            return self.add(f"aten::{name}", arguments, _find_result(name, arguments))
        if path.startswith("ops."):
            return self.add(path[4:].replace(".", "::"), arguments, "Tensor")
        if path in self.definitions.functions:
            return self._call_function(path, arguments)
        if path in self.definitions.classes:
            created = self.add("prim::CreateObject", [], path)
            self.call_method(created, "__init__", arguments)
            return created
        if path.startswith("__torch__.torch.nn.functional."):
            return self.add(f"aten::{path.rpartition('.')[2]}", arguments, "Tensor")
        if isinstance(node.func, ast.Attribute):
            return self.call_method(self.visit(node.func.value), node.func.attr, arguments)
        raise NotImplementedError(f"a call of {path} in a graph")

    def _joinedstr(self, node: ast.JoinedStr) -> Value:
        text, parts = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            else:
                text += "{}"
                parts.append(self.visit(part.value))  # type: ignore[attr-defined]
        return self.add("aten::format", [self.constant(text, "str"), *parts], "str")

    def _annotate(self, node: ast.Call) -> Value:
        value, kind = self.visit(node.args[1]), ast.unparse(node.args[0])
        value._kind = self.kind(kind) if value.node().kind() != "prim::Constant" else value._kind
        return value

    def _call_with_type(self, node: ast.Call, path: str) -> Value:
        if path == "isinstance":
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            shown = ", ".join(self.kind(ast.unparse(kind)).show() for kind in kinds)
            return self.add("prim::isinstance", [self.visit(node.args[0])], "bool",
                            {"types": f"[{shown}]"})
        kind = ast.unparse(node.args[0])
        values = [self.visit(x) for x in node.args[1:]]
        name = "unchecked_cast" if values else "Uninitialized"
        return self.add(f"prim::{name}", values, kind)

    def _call_function(self, path: str, arguments: list[Value]) -> Value:
        definition = self.definitions.functions[path]
        if self.inlines:
            return self.call_definition(definition, arguments)
        result = "Tensor" if definition.returns is None else ast.unparse(definition.returns)
        name = path.rpartition(".")[2]
        node = Node("prim::Constant", self.graph, {"name": name})
        node.results.append(Value(self.fresh(), self.kind("Function"), node))
        self.place.body.append(node)
        return self.add("prim::CallFunction", [node.results[0], *arguments], result)

    def call_method(self, owner: Value, name: str, arguments: list[Value]) -> Value:
        """Add a call of a method: one of the program, or an operator."""
        kind = owner.type().annotation_str
        if kind not in self.definitions.classes:
            return self.add(f"aten::{name}", [owner, *arguments],
                            _find_result(name, [owner, *arguments]))
        definition = self.definitions.find_method(kind, name)
        if definition is not None and self.inlines and name != "__init__":
            return self.call_definition(definition, [owner, *arguments])
        result = "Tensor" if definition is None or definition.returns is None \
            else ast.unparse(definition.returns)
        return self.add("prim::CallMethod", [owner, *arguments], result, {"name": name})


def _find_result(name: str, arguments: list[Value]) -> str:
    """Return the type of an operator's result."""
    first = arguments[0].type().annotation_str if arguments else "Tensor"
    if name == "size" and len(arguments) > 1:
        return "int"
    if first == "str" and name != "split":
        return "bool" if name.startswith(("is", "starts", "ends")) else "str"
    if first.startswith(("List", "Dict")) and name in ("append", "extend", "insert", "clear",
                                                       "sort", "reverse", "remove", "update"):
        return first
    if first.startswith("List") and name in ("index", "count"):
        return "int"
    if first.startswith("Dict") and name in ("keys", "values", "get", "pop"):
        key, _, value = first[5:-1].partition(", ")
        return {"keys": f"List[{key}]", "values": f"List[{value}]"}.get(name, value)
    if first.startswith("List") and name in ("pop",):
        return first[5:-1]
    return _OF_TENSORS.get(name, "Tensor")
