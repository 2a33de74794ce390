"""Scripted functions and methods as graphs."""

from __future__ import annotations

import ast
from typing import Any

from .calls import Calls
from .definitions import Definitions
from .nodes import Graph, Node, Value

__all__ = ["build_graph"]


class _Statements(Calls):
    """Adds the nodes of statements."""

    def build(self, function: ast.FunctionDef, owner: str | None) -> Graph:
        """Return the graph of a function, or of a method of the class `owner`."""
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        arguments = function.args.args
        for position, argument in enumerate(arguments):
            kind = owner if owner and not position else "Tensor" if argument.annotation is None \
                else ast.unparse(argument.annotation)
            name = argument.arg if argument.arg == "self" or argument.arg not in used \
                else self.fresh(argument.arg)
            value = Value(name, self.kind(kind), self.graph.parameters)
            self.graph.parameters.results.append(value)
            self.names[argument.arg] = value
        self.graph.results = [self.run(function.body) or self.constant(None, "NoneType")]
        return self.graph

    def call_definition(self, function: ast.FunctionDef, arguments: list[Value]) -> Value:
        outer = self.names
        parameters = function.args.args
        defaults = dict(zip([a.arg for a in parameters][::-1], function.args.defaults[::-1],
                            strict=False))
        self.names = {a.arg: v for a, v in zip(parameters, arguments, strict=False)}
        for argument in parameters[len(arguments):]:
            self.names[argument.arg] = self.visit(defaults[argument.arg])
        result = self.run(function.body) or self.constant(None, "NoneType")
        self.names = outer
        return result

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
            self._assign(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.visit(node.value)
            if value.node().kind() != "prim::Constant":
                value._kind = self.kind(ast.unparse(node.annotation))
            self._assign(node.target, value)

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            if value.debugName().isdigit() and value.node().kind() != "prim::Constant":
                value._name = self.fresh(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Attribute):
            self.add("prim::SetAttr", [self.visit(target.value), value], "", {"name": target.attr})
        elif isinstance(target, ast.Subscript):
            owner = self.visit(target.value)
            if owner.type().annotation_str == "Tensor":
                place = self.visit(target)
                name = "copy_" if value.type().annotation_str == "Tensor" else "fill_"
                self.add(f"aten::{name}", [place, value], "Tensor")
            else:
                self.add("aten::_set_item", [owner, self.visit(target.slice), value], "")
        else:
            raise NotImplementedError(f"an assignment to {ast.unparse(target)} in a graph")

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        kind = value.type().annotation_str
        inner: list[str] = ["Tensor"] * len(targets)
        if kind.startswith(("Tuple[", "List[")):
            parsed: Any = ast.parse(kind, mode="eval").body
            parts = parsed.slice.elts if isinstance(parsed.slice, ast.Tuple) else [parsed.slice]
            inner = [ast.unparse(part) for part in parts] * (
                len(targets) if kind.startswith("List") else 1)
        node = Node("prim::ListUnpack" if kind.startswith("List") else "prim::TupleUnpack",
                    self.place)
        node.arguments = [value]
        node.results = [Value(self.fresh(), self.kind(part), node) for part in inner]
        self.place.body.append(node)
        for target, result in zip(targets, node.results, strict=False):
            self._assign(target, result)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        old, new = self.visit(node.target), self.visit(node.value)
        self._assign(node.target, self.operate(type(node.op), old, new, in_place=True))

    def _do_assert(self, node: ast.Assert) -> None:
        def fail() -> list[Value]:
            message = self.constant("AssertionError: ", "str") if node.msg is None \
                else self.visit(node.msg)
            self.add("prim::RaiseException", [message, self.constant(None, "NoneType")], "")
            return []

        self.branch(self.visit(node.test), [list, fail])

    def _do_raise(self, node: ast.Raise) -> None:
        message = node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
        text = self.constant("", "str") if message is None else self.visit(message)
        self.add("prim::RaiseException", [text, self.constant(None, "NoneType")], "")

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self.add("aten::Delete", [self.visit(target.value), self.visit(target.slice)], "")

    def _do_with(self, node: ast.With) -> None:
        managers = [self.visit(item.context_expr) for item in node.items]
        for item, manager in zip(node.items, managers, strict=True):
            entered = self.add("prim::Enter", [manager], "Tensor")
            if item.optional_vars is not None:
                self._assign(item.optional_vars, entered)
        if _returns(node) or self.run(node.body) is not None:
            raise NotImplementedError("a return within a with statement in a graph")
        for manager in reversed(managers):
            self.add("prim::Exit", [manager], "Tensor")

    def _do_if(self, node: ast.If) -> None:
        names = [name for name in _list_assigned(node)
                 if name in self.names or name in _list_assigned_in(node.body)
                 and name in _list_assigned_in(node.orelse)]

        def way(body: list[ast.stmt]) -> list[Value]:
            self.run(body)
            return [self.names[name] for name in names]

        results = self.branch(self.visit(node.test), [
            lambda: way(node.body), lambda: way(node.orelse)])
        self._rename(names, results)

    def _rename(self, names: list[str], values: list[Value]) -> None:
        for name, value in zip(names, values, strict=True):
            value._name, self.names[name] = self.fresh(name), value

    def _do_while(self, node: ast.While) -> None:
        self._loop(node, self.constant(2**63 - 1, "int"), self.visit(node.test))

    def _do_for(self, node: ast.For) -> None:
        source = node.iter
        if isinstance(source, ast.Call) and ast.unparse(source.func) == "range":
            bounds = [self.visit(x) for x in source.args]
            count = bounds[0] if len(bounds) == 1 else self.add("aten::__range_length", [
                *bounds, *[self.constant(1, "int")] * (3 - len(bounds))], "int")
            self._loop(node, count, self.constant(True, "bool"), None, bounds)
        else:
            values = self.visit(source)
            count = self.add("aten::len", [values], "int")
            self._loop(node, count, self.constant(True, "bool"), values)

    def _loop(self, node: ast.While | ast.For, count: Value, condition: Value,
              source: Value | None = None, bounds: list[Value] | None = None) -> None:
        if _returns(node) or any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(node)):
            raise NotImplementedError("break, continue and return within a loop in a graph")
        names = [name for name in _list_assigned_in(node.body) if name in self.names]
        loop, before = Node("prim::Loop", self.place), dict(self.names)
        loop.arguments = [count, condition, *(self.names[name] for name in names)]
        self.place.body.append(loop)
        outer, self.place = self.place, loop.addBlock()
        number = Value(self.fresh(), self.kind("int"), self.place.parameters)
        self.place.parameters.results.append(number)
        for name in names:
            value = Value(self.fresh(name), before[name].type(), self.place.parameters)
            self.place.parameters.results.append(value)
            self.names[name] = value
        if isinstance(node, ast.For):
            self._assign(node.target, self._find_item(number, source, bounds or []))
        self.run(node.body)
        again = self.visit(node.test) if isinstance(node, ast.While) \
            else self.constant(True, "bool")
        self.place.results = [again, *(self.names[name] for name in names)]
        self.place, self.names = outer, before
        loop.results = [Value(self.fresh(), before[name].type(), loop) for name in names]
        self._rename(names, loop.results)

    def _find_item(self, number: Value, source: Value | None, bounds: list[Value]) -> Value:
        if source is None:
            if len(bounds) < 2:
                return number
            step = bounds[2] if len(bounds) > 2 else self.constant(1, "int")
            return self.add("aten::__derive_index", [number, bounds[0], step], "int")
        kind = source.type().annotation_str
        inner = kind[5:-1] if kind.startswith("List[") else "Tensor" if kind == "Tensor" else "str"
        return self.add("aten::select" if kind == "Tensor" else "aten::__getitem__",
                        [source, *([self.constant(0, "int")] if kind == "Tensor" else []),
                         number], inner)


def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _list_assigned_in(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign."""
    return list(dict.fromkeys(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)
                              and isinstance(n.ctx, ast.Store)))


def _list_assigned(node: ast.If) -> list[str]:
    return list(dict.fromkeys([*_list_assigned_in(node.body), *_list_assigned_in(node.orelse)]))


def build_graph(text: str, texts: dict[str, str], owner: str | None = None,
                inlines: bool = False) -> Graph:
    """Return the graph of a function or method given as TorchScript's code.

    `texts`: the program's classes and functions by namespace. `owner`: the method's class.
    `inlines`: put the nodes of called functions and methods in the place of calls.
    Raises NotImplementedError for code that has no graph here.
    """
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return _Statements(Definitions(texts), inlines).build(function, owner)
