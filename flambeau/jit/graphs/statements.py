"""Scripted functions and methods as graphs."""

from __future__ import annotations

import ast
from typing import Any

from .definitions import Definitions
from .exits import remove_exits
from .loops import Loops
from .nodes import Graph, Node, Value
from .types import split_type

__all__ = ["build_graph"]


class _Statements(Loops):
    """Adds the nodes of statements."""

    reassigned: frozenset[tuple[int, str]] = frozenset()  # objects' attributes that change

    def build(self, function: ast.FunctionDef, owner: str | None, instance: Any = None) -> Graph:
        """Return the graph of a function, or of a method of the class `owner`."""
        function = remove_exits(function)
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        arguments = function.args.args
        for position, argument in enumerate(arguments):
            kind = owner if owner and not position else "Tensor" if argument.annotation is None \
                else ast.unparse(argument.annotation)
            name = argument.arg if argument.arg == "self" or argument.arg not in used \
                else self.fresh(argument.arg)
            value = Value(name, self.kind(kind), self.graph.parameters)
            value.instance = None if position else instance
            self.graph.parameters.results.append(value)
            self.names[argument.arg] = value
        self.graph.results = [self.run(function.body) or self.constant(None, "NoneType")]
        return self.graph

    def call_definition(self, function: ast.FunctionDef, arguments: list[Value]) -> Value:
        if self._depth > 60:
            raise NotImplementedError(f"the recursion of {function.name} in a graph")
        self._depth += 1
        outer = self.names
        function = remove_exits(function)
        self.names = dict(zip([a.arg for a in function.args.args], arguments, strict=True))
        result = self.run(function.body) or self.constant(None, "NoneType")
        self.names = outer
        self._depth -= 1
        return result

    _depth = 0

    def resolve_instance(self, value: Value, owner: Value, name: str) -> None:
        instance = owner.instance
        if instance is None or (id(instance), name) in self.reassigned:
            return
        try:
            child = instance._flambeau_get(name)
        except AttributeError:
            return
        value.instance = child if hasattr(child, "_flambeau_type") else None

    def run(self, body: list[ast.stmt]) -> Value | None:
        """Add statements; return what they return, if they do."""
        for position, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                return self.constant(None, "NoneType") if statement.value is None \
                    else self.visit(statement.value)
            if isinstance(statement, ast.If) and _returns(statement):
                return self._return_from(statement, body[position + 1:])
            method = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if method is None:
                raise NotImplementedError(f"{type(statement).__name__} in a graph")
            method(statement)
        return None

    def _return_from(self, node: ast.If, rest: list[ast.stmt]) -> Value:
        """Add a branch that returns; the statements after it belong to the ways that do not."""
        def run(way: list[ast.stmt]) -> list[Value]:
            return [self.run([*way, *rest]) or self.constant(None, "NoneType")]

        (value,) = self.branch(self.visit(node.test), [lambda: run(node.body),
                                                       lambda: run(node.orelse)])
        return value

    def _do_pass(self, node: ast.Pass) -> None:
        """Add nothing."""

    def _do_expr(self, node: ast.Expr) -> None:
        self.visit(node.value)

    def _do_assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.visit(node.value)
            if value.node().kind() != "prim::Constant":
                value._kind = self.kind(ast.unparse(node.annotation))
            self.assign(node.target, value)

    def assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            if value.debugName().isdigit() and value.node().kind() != "prim::Constant":
                value._name = self.fresh(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(self.visit(target.value), target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value)
        else:
            raise NotImplementedError(f"an assignment to {ast.unparse(target)} in a graph")

    def _set_attribute(self, owner: Value, name: str, value: Value) -> None:
        if owner.type().annotation_str == "Tensor":
            self.add(f"aten::set_{name}", [owner, value], "")
            return
        if owner.instance is not None and owner.instance._flambeau_type.attributes:
            kind = owner.instance._flambeau_type.attributes.get(name)
            if kind is not None and self.definitions.kind_of_class(
                    ast.unparse(kind)) == "interface":
                raise RuntimeError("Freezing does not support SetAttr on an interface type. "
                                   f"SetAttr is attempted on '{name}'")
            if kind is not None and ast.unparse(kind) in self.definitions.classes:
                place = (id(owner.instance), name)
                if place not in self.reassigned:
                    self.reassigned = self.reassigned | {place}
                    raise _Reassigned
        self.add("prim::SetAttr", [owner, value], "", {"name": name})

    def _set_item(self, target: ast.Subscript, value: Value) -> None:
        owner = self.visit(target.value)
        if owner.type().annotation_str != "Tensor":
            if owner.type().annotation_str in self.definitions.classes:
                self.call_method(owner, "__setitem__", [self.visit(target.slice), value])
            else:
                self.add("aten::_set_item", [owner, self.visit(target.slice), value], "")
            return
        items = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        place, tensors = self.locate(owner, items)
        is_tensor = value.type().annotation_str == "Tensor"
        if tensors:
            if not is_tensor:
                value = self.add_operator("tensor", [value], {
                    "dtype": self.add("prim::dtype", [owner], "int")}, is_known=False)
            indices = self.add("prim::ListConstruct", tensors, "List[Optional[Tensor]]")
            self.add_operator("index_put_", [place, indices, value], {})
        else:
            self.add_operator("copy_" if is_tensor else "fill_", [place, value], {})

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        kind = value.type().annotation_str
        head, parts = split_type(kind)
        fields = self.definitions.list_fields(kind)
        if fields is not None:
            head, parts = "Tuple", list(fields.values())
        if any(isinstance(target, ast.Starred) for target in targets):
            raise NotImplementedError("a starred target in a graph")
        self.note_inexact(head not in ("Tuple", "List", "Tensor"), "an unpacked value")
        if head == "Tensor":
            value = self.add_operator("unbind", [value, self.constant(0, "int")], {})
            head, parts = "List", ["Tensor"]
        inner = parts * len(targets) if head == "List" else parts or ["Tensor"] * len(targets)
        node = Node("prim::ListUnpack" if head == "List" else "prim::TupleUnpack", self.place)
        node.arguments = [value]
        node.results = [Value(self.fresh(), self.kind(part), node) for part in inner]
        self.place.body.append(node)
        for target, result in zip(targets, node.results, strict=False):
            self.assign(target, result)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            owner = self.visit(target.value)
            if owner.type().annotation_str == "Tensor":
                self._write_part(owner, target, node)
                return
        old, new = self.visit(target), self.visit(node.value)
        result = self.operate(type(node.op), old, new, in_place=True)
        is_written = result.node().kind().endswith("_") and not isinstance(target, ast.Name)
        if not is_written:  # else it is the same object
            self.assign(target, result)
        elif isinstance(target, ast.Name):
            self.names[target.id] = result

    def _write_part(self, owner: Value, target: ast.Subscript, node: ast.AugAssign) -> None:
        items = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        place, tensors = self.locate(owner, items)
        value = self.visit(node.value)
        result = self.operate(type(node.op), self._index(place, tensors), value, in_place=True)
        if tensors:
            indices = self.add("prim::ListConstruct", tensors, "List[Optional[Tensor]]")
            self.add_operator("index_put_", [place, indices, result], {})

    def _do_assert(self, node: ast.Assert) -> None:
        def fail() -> list[Value]:
            message = self.constant("", "str") if node.msg is None else self.visit(node.msg)
            self.add("prim::RaiseException", [
                message, self.constant("AssertionError", "str")], "")
            return []

        self.branch(self.visit(node.test), [list, fail])

    def _do_raise(self, node: ast.Raise) -> None:
        call = node.exc
        message = call.args[0] if isinstance(call, ast.Call) and call.args else None
        text = self.constant("", "str") if message is None else self.visit(message)
        kind = self.constant(ast.unparse(call.func), "str") if isinstance(call, ast.Call) \
            else self.constant(None, "NoneType")
        self.add("prim::RaiseException", [text, kind], "")

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self.add("aten::Delete", [self.visit(target.value), self.visit(target.slice)], "")

    def _do_with(self, node: ast.With) -> None:
        managers = [self.visit(item.context_expr) for item in node.items]
        for item, manager in zip(node.items, managers, strict=True):
            entered = self.add("prim::Enter", [manager], "Tensor")
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
        if _returns(node) or self.run(node.body) is not None:
            raise NotImplementedError("a return within a with statement in a graph")
        for manager in reversed(managers):
            self.add("prim::Exit", [manager], "Tensor")

    def _do_if(self, node: ast.If) -> None:
        test = self.visit(node.test)
        if isinstance(test.toIValue(), bool):
            self.run(node.body if test.toIValue() else node.orelse)
            return
        ways = (node.body, node.orelse)
        raises = [_always_raises(way) for way in ways]
        defined = [set(_list_assigned_in(way)) for way in ways]
        names = [name for name in _list_assigned(node) if all(
            name in self.names or name in known or fails
            for known, fails in zip(defined, raises, strict=True))]

        def way(body: list[ast.stmt], fails: bool, other: list[Value]) -> list[Value]:
            self.run(body)
            return [self.names[name] if not fails or name in self.names else
                    self.add("prim::Uninitialized", [], kind)
                    for name, kind in zip(names, kinds[not fails], strict=True)]

        kinds: list[list[str]] = [["Any"] * len(names)] * 2
        results = self.branch(test, [
            lambda: way(node.body, raises[0], []), lambda: way(node.orelse, raises[1], [])])
        if any(raises) and not all(raises):
            ends = list(results[0].node().blocks())[raises.index(False)].results if results else []
            for result, value in zip(results, ends, strict=True):
                result._kind = value.type()
        self.rename(names, results)


class _Reassigned(Exception):
    """An attribute that holds an object is assigned: which object it holds is not known."""


def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _always_raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in body)


def _list_assigned_in(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign."""
    return list(dict.fromkeys(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)
                              and isinstance(n.ctx, ast.Store)))


def _list_assigned(node: ast.If) -> list[str]:
    return list(dict.fromkeys([*_list_assigned_in(node.body), *_list_assigned_in(node.orelse)]))


def build_graph(text: str, texts: dict[str, str], owner: str | None = None,
                inlines: bool = False, constants: Any = (), instance: Any = None) -> Graph:
    """Return the graph of a function or method given as TorchScript's code.

    `texts`: the program's classes and functions by namespace. `owner`: the method's class.
    `inlines`: put the nodes of called functions and methods in the place of calls. `constants`:
    the program's tensors. `instance`: the module that the method belongs to; the graph must then
    be exact, as it is run.
    Raises NotImplementedError for code that has no graph here.
    """
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    definitions = Definitions(texts, constants)
    reassigned: frozenset[tuple[int, str]] = frozenset()
    while True:
        statements = _Statements(definitions, inlines, instance is not None)
        statements.reassigned = reassigned
        try:
            return statements.build(function, owner, instance)
        except _Reassigned:
            reassigned = statements.reassigned
