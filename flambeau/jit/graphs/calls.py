"""Calls of TorchScript's code as nodes: operators, functions, methods and objects."""

from __future__ import annotations

import ast
from typing import Any

from .nodes import Node, Value
from .refinement import decide_instance
from .schemas import choose_overload, list_results
from .subscripts import Subscripts
from .types import IRType, split_type

__all__ = ["Calls"]

_BUILTINS = {"len": ("aten::len", "int"), "int": ("aten::Int", "int"),
             "float": ("aten::Float", "float"), "bool": ("aten::Bool", "bool"),
             "str": ("aten::str", "str"), "complex": ("aten::Complex", "complex"),
             "ord": ("aten::ord", "int"), "chr": ("aten::chr", "str"), "abs": ("prim::abs", None),
             "min": ("prim::min", None), "max": ("prim::max", None), "sum": ("aten::sum", None),
             "list": ("aten::list", None), "sorted": ("aten::sorted", None),
             "print": ("prim::Print", ""), "round": ("aten::round", None),
             "any": ("aten::any", "bool"), "all": ("aten::all", "bool"),
             "range": ("aten::__range", "List[int]"), "divmod": ("aten::divmod", "Tuple[int, int]"),
             "hex": ("aten::hex", "str"), "oct": ("aten::oct", "str"), "bin": ("aten::bin", "str"),
             "wait": ("aten::wait", None), "awaitable": ("prim::awaitable", None)}
_OF_TENSORS = {"size": "List[int]", "dim": "int", "numel": "int", "item": "number",
               "is_floating_point": "bool", "tolist": "Any", "unbind": "List[Tensor]",
               "split": "List[Tensor]", "chunk": "List[Tensor]", "stride": "List[int]",
               "is_complex": "bool", "is_contiguous": "bool", "get_device": "int",
               "is_grad_enabled": "bool", "is_scripting": "bool", "warn": "NoneType",
               "storage_offset": "int", "device": "Device", "ndim": "int",
               "is_autocast_enabled": "bool", "is_signed": "bool", "equal": "bool"}
# Text methods and what they return, apart from a text.
_OF_TEXTS = {"split": "List[str]", "rsplit": "List[str]", "splitlines": "List[str]",
             "find": "int", "rfind": "int", "index": "int", "rindex": "int", "count": "int",
             "partition": "Tuple[str, str, str]", "rpartition": "Tuple[str, str, str]"}
_CREATORS = frozenset(("zeros", "ones", "empty", "rand", "randn", "full"))


class Calls(Subscripts):
    """Adds the nodes of calls, or in their place those of the functions called."""

    def call_definition(self, function: ast.FunctionDef, arguments: list[Value]) -> Value:
        """Add the nodes of a function instead of its call."""
        raise NotImplementedError

    def add_fork(self, node: ast.Call) -> Value:
        """Add a call that runs beside the rest."""
        raise NotImplementedError

    def _call(self, node: ast.Call) -> Value:
        path = ast.unparse(node.func)
        if path in ("torch.fork", "torch.wait", "torch.awaitable"):
            path = path[6:]
        if path in ("annotate", "fork", "getattr"):
            return {"annotate": self._annotate, "fork": self.add_fork,
                    "getattr": self._read_by_name}[path](node)
        if path in ("isinstance", "unchecked_cast", "uninitialized"):
            return self._call_with_type(node, path)
        if path.endswith("__new__"):
            return self._create_object(node, path)
        arguments = [self.visit(x) for x in node.args]
        keywords = {str(k.arg): self.visit(k.value) for k in node.keywords}
        if path in _BUILTINS:
            name, result = _BUILTINS[path]
            if result is None:
                result = _find_builtin_result(path, arguments)
            return self.add(name, [*arguments, *keywords.values()], result)
        if path.startswith("torch.") and "torch" not in self.names:
            return self.add_operator(path[6:].replace("linalg.", "linalg_"), arguments, keywords)
        if path.startswith("ops.aten."):
            return self.add_operator(path[9:], arguments, keywords)
        if path.startswith(("ops.", "warnings.", "math.")):
            return self._call_library(path, arguments, keywords)
        return self._call_path(node, path, arguments, keywords)

    def _call_path(self, node: ast.Call, path: str, arguments: list[Value],
                   keywords: dict[str, Value]) -> Value:
        """Call a function, class or method of the program."""
        if path in self.definitions.functions:
            return self._call_function(path, self.bind_arguments(
                self.definitions.functions[path], arguments, keywords))
        if path in self.definitions.classes:
            return self._call_class(path, arguments, keywords)
        if path.startswith("__torch__.torch.nn.functional."):
            return self.add_operator(path.rpartition(".")[2], arguments, keywords, is_known=False)
        if isinstance(node.func, ast.Attribute):
            owner = self.visit(node.func.value)
            return self.call_method(owner, node.func.attr, arguments, keywords)
        raise NotImplementedError(f"a call of {path} in a graph")

    def _call_class(self, path: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        fields = self.definitions.list_fields(path)
        if fields is not None:  # a named tuple
            values = dict(zip(fields, arguments, strict=False)) | keywords
            return self.add("prim::TupleConstruct", [values[name] for name in fields], path)
        created = self.add("prim::CreateObject", [], path)
        self.call_method(created, "__init__", arguments, keywords)
        return created

    def _create_object(self, node: ast.Call, path: str) -> Value:
        name = path.removesuffix(".__new__") if path != "__new__" else ast.unparse(node.args[0])
        return self.add("prim::CreateObject", [], name)

    def _read_by_name(self, node: ast.Call) -> Value:
        name = node.args[1]
        assert isinstance(name, ast.Constant)
        return self.read_attribute(self.visit(node.args[0]), str(name.value))

    def _call_library(self, path: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        """Call an operator of prim or of a library."""
        name = path.removeprefix("ops.").replace(".", "::")
        kinds = {"prim::dtype": "int", "prim::device": "Device", "prim::layout": "int",
                 "prim::requires_grad": "bool", "prim::type": "str", "warnings::warn": "",
                 "prim::RaiseException": "", "prim::NumToTensor": "Tensor", "prim::Print": "",
                 "prim::shape": "List[int]", "prim::ndim": "int", "prim::index": "Optional[int]",
                 "prim::rangelist": "List[int]", "prim::tolist": "Any"}
        result = kinds.get(name)
        if result is None and name in ("prim::min", "prim::max", "prim::abs", "prim::data"):
            result = _find_builtin_result(name[6:], arguments)
        elif result is None and name.startswith("prim::is_"):
            result = "bool"
        elif result is None and name.startswith("prim::unchecked_unwrap"):
            result = split_type(arguments[0].type().annotation_str)[1][0]
        elif result is None and name.startswith("quantized::"):
            result = "Tensor"
        elif result is None and name.startswith("math::"):
            result = "int" if name[6:] in ("floor", "ceil", "gcd", "factorial") else "float"
        self.note_inexact(result is None, path)
        value = self.add(name, [*arguments, *keywords.values()],
                         "Tensor" if result is None else result)
        value.node().keywords = tuple(keywords)
        return value

    def add_operator(self, name: str, arguments: list[Value], keywords: dict[str, Value],
                     is_known: bool = True) -> Value:
        """Add an operator of aten, with its default arguments if its schema is known."""
        first = arguments[0].type().annotation_str if arguments else "Tensor"
        kinds_by_name = {k: v.type() for k, v in keywords.items()}
        schema = choose_overload(name, [x.type() for x in arguments], kinds_by_name) \
            or choose_overload(name, [_drop_none(x.type()) for x in arguments], kinds_by_name)
        start = 0 if name in _CREATORS else 1
        if schema is None and (first == "Tensor" or not start) and arguments[start:] and all(
                x.type().annotation_str == "int" for x in arguments[start:]):  # separate sizes
            packed = self.add("prim::ListConstruct", arguments[start:], "List[int]")
            arguments = [*arguments[:start], packed]
            schema = choose_overload(name, [x.type() for x in arguments], kinds_by_name)
        if schema is None or first.startswith(("Dict[", "str")):
            result = _find_result(name, arguments)
            self.note_inexact(result is None and is_known, f"torch.{name}")
            value = self.add(f"aten::{name}", [*arguments, *keywords.values()],
                             "Tensor" if result is None else result)
            value.node().keywords = tuple(keywords)
            return value
        passed = dict(zip([a.name for a in schema.arguments], arguments, strict=False)) | keywords
        values = [passed[a.name] if a.name in passed else self.default(a.default_value)
                  for a in schema.arguments]
        kinds = list_results(schema)
        value = self.add(f"aten::{name}", values, kinds[0] if kinds else "")
        node = value.node()
        if len(kinds) < 2:
            return value
        node.results += [Value(self.fresh(), self.kind(kind), node) for kind in kinds[1:]]
        return self.add("prim::TupleConstruct", node.results, f"Tuple[{', '.join(kinds)}]")

    def default(self, value: Any) -> Value:
        """Return the constant of a default argument."""
        if isinstance(value, list):
            return self.add("prim::ListConstruct", [self.default(part) for part in value],
                            f"List[{type(value[0]).__name__ if value else 'int'}]")
        if value is None or isinstance(value, (bool, int, float, str)):
            return self.constant(value, "NoneType" if value is None else type(value).__name__)
        raise NotImplementedError(f"a default argument {value!r} in a graph")

    def bind_arguments(self, function: ast.FunctionDef, arguments: list[Value],
                       keywords: dict[str, Value]) -> list[Value]:
        """Return the arguments of a call in the order of the definition, with its defaults."""
        parameters = function.args.args
        if len(arguments) == len(parameters):
            return arguments
        names = [parameter.arg for parameter in parameters]
        passed = dict(zip(names, arguments, strict=False)) | keywords
        defaults = dict(zip(names[::-1], function.args.defaults[::-1], strict=False))
        return [passed[name] if name in passed else self.visit(defaults[name]) for name in names]

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
        kind, part = ast.unparse(node.args[0]), node.args[1]
        value = self.visit(part)
        if value.node().kind() != "prim::Constant":
            value._kind = self.kind(kind)
        elif kind.startswith("Optional["):
            typed = self.add("prim::unchecked_cast", [value], kind)
            typed.node().annotation = kind
            return typed
        return value

    def _call_with_type(self, node: ast.Call, path: str) -> Value:
        if path == "isinstance":
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            shown = ", ".join(self.kind(ast.unparse(kind)).show() for kind in kinds)
            tested = self.visit(node.args[0])
            known = decide_instance(tested.type(), ast.unparse(node.args[1]))
            if known is not None:
                return self.constant(known, "bool")
            value = self.add("prim::isinstance", [tested], "bool", {"types": f"[{shown}]"})
            value.node().annotation = ast.unparse(node.args[1])
            return value
        kind = ast.unparse(node.args[0])
        values = [self.visit(x) for x in node.args[1:]]
        name = "unchecked_cast" if values else "Uninitialized"
        value = self.add(f"prim::{name}", values, kind)
        value.node().annotation = kind
        value.instance = values[0].instance if values else None
        return value

    def _call_function(self, path: str, arguments: list[Value]) -> Value:
        definition = self.definitions.functions[path]
        if self.inlines:
            return self.call_definition(definition, arguments)
        result = "Tensor" if definition.returns is None else ast.unparse(definition.returns)
        name = path.rpartition(".")[2]
        node = Node("prim::Constant", self.graph, {"name": name})
        node.constant = path
        node.results.append(Value(self.fresh(), self.kind("Function"), node))
        self.place.body.append(node)
        return self.add("prim::CallFunction", [node.results[0], *arguments], result)

    def call_method(self, owner: Value, name: str, arguments: list[Value],
                    keywords: dict[str, Value] | None = None) -> Value:
        """Add a call of a method: one of the program, or an operator."""
        kind = owner.type().annotation_str
        if owner.instance is not None:
            kind = owner.instance._flambeau_type.qualified_name
        if kind not in self.definitions.classes:
            return self.add_operator(name, [owner, *arguments], keywords or {})
        definition = self.definitions.find_method(kind, name)
        if definition is None and self.definitions.find_attribute(kind, name):
            return self.call_method(self.read_attribute(owner, name), "forward", arguments,
                                    keywords)
        if definition is not None:
            values = self.bind_arguments(definition, [owner, *arguments], keywords or {})
            if self.inlines and self.may_inline(owner, kind, name):
                return self.call_definition(definition, values)
            arguments = values[1:]
        result = "Tensor" if definition is None or definition.returns is None \
            else ast.unparse(definition.returns)
        if definition is not None and name == "__init__":
            result = "NoneType"
        return self.add("prim::CallMethod", [owner, *arguments], result, {"name": name})

    def may_inline(self, owner: Value, kind: str, name: str) -> bool:
        """Return whether the method of this name is certainly the one that is called."""
        return self.definitions.kind_of_class(kind) != "interface" and name != "__init__"


def _drop_none(kind: IRType) -> IRType:
    """Return the type of a value that is known not to be None where it is used."""
    head, inner = split_type(kind.annotation_str)
    return kind.derive(inner[0]) if head == "Optional" else kind


def _find_builtin_result(path: str, arguments: list[Value]) -> str:
    """Return the type of the result of min, max, sum, list etc."""
    kinds = [x.type().annotation_str for x in arguments]
    first = kinds[0] if kinds else "Tensor"
    if path in ("wait", "awaitable") and first.startswith(("Future[", "Await[")):
        return split_type(first)[1][0]
    if path in ("min", "max", "sum") and len(kinds) == 1 and first.startswith("List["):
        return split_type(first)[1][0]
    if path in ("min", "max") and len(kinds) > 1:
        return "Tensor" if "Tensor" in kinds else "float" if "float" in kinds else first
    if path == "round":
        return "int" if len(kinds) == 1 and first == "float" else first
    if path == "list" and first.startswith("Dict["):
        return f"List[{split_type(first)[1][0]}]"
    return "List[str]" if path == "list" and first == "str" else first


def _find_result(name: str, arguments: list[Value]) -> str | None:
    """Return the type of an operator's result, or None where it is unknown."""
    first = arguments[0].type().annotation_str if arguments else "Tensor"
    head, inner = split_type(first)
    if name == "size" and len(arguments) > 1:
        return "int"
    if name in ("str", "format", "join"):
        return "str"
    if head == "str":
        return _OF_TEXTS.get(name) or ("bool" if name.startswith(("is", "starts", "ends"))
                                       else "str")
    if head in ("List", "Dict") and name in ("append", "extend", "insert", "clear", "sort",
                                             "reverse", "remove", "update"):
        return first if name == "append" else ""
    if head == "List":
        known = {"index": "int", "count": "int", "pop": inner[0], "copy": first, "len": "int",
                 "__contains__": "bool"}
        if name in known:
            return known[name]
    if head == "Dict":
        key, value = inner
        return {"keys": f"List[{key}]", "values": f"List[{value}]", "copy": first,
                "items": f"List[Tuple[{key}, {value}]]", "get": value if len(arguments) > 2
                else f"Optional[{value}]", "pop": value, "setdefault": value, "len": "int",
                "popitem": f"Tuple[{key}, {value}]", "__contains__": "bool"}.get(name)
    if head in ("int", "float", "bool") and name in ("neg", "abs"):
        return first
    return _OF_TENSORS.get(name)
