"""Loops, comprehensions and forks as nodes with blocks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .calls import Calls
from .exits import list_flags
from .nodes import Node, Value
from .types import split_type

__all__ = ["Loops"]

_Item = Callable[[Value], list[Value]]  # the values of a round, by its number


class Loops(Calls):
    """Adds the nodes of loops."""

    def run(self, body: list[ast.stmt]) -> Value | None:
        """Add statements; return what they return, if they do."""
        raise NotImplementedError

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        raise NotImplementedError

    def rename(self, names: list[str], values: list[Value]) -> None:
        """Let local names mean values."""
        for name, value in zip(names, values, strict=True):
            value._name, self.names[name] = self.fresh(name), value

    def _do_while(self, node: ast.While) -> None:
        self._loop(node.body, self.constant(2**63 - 1, "int"), self.visit(node.test), node.test,
                   list_flags(node))

    def _do_for(self, node: ast.For) -> None:
        count, item = self._iterate(node.iter)

        def start(number: Value) -> None:
            self._assign_items(node.target, item(number))

        self._loop(node.body, count, self.constant(True, "bool"), None, list_flags(node), start)

    def _assign_items(self, target: ast.expr, values: list[Value]) -> None:
        if len(values) == 1:
            self.assign(target, values[0])
        elif isinstance(target, ast.Tuple | ast.List):
            for part, value in zip(target.elts, values, strict=True):
                self.assign(part, value)
        else:
            kinds = ", ".join(value.type().annotation_str for value in values)
            self.assign(target, self.add("prim::TupleConstruct", values, f"Tuple[{kinds}]"))

    def _loop(self, body: list[ast.stmt], count: Value, condition: Value,
              test: ast.expr | None, flags: list[str],
              start: Callable[[Value], None] | None = None) -> None:
        """Add prim::Loop. `flags`: names of bools that end it. `start`: begins a round."""
        names = [name for name in _list_assigned(body) if name in self.names]
        loop, before = Node("prim::Loop", self.place), dict(self.names)
        loop.arguments = [count, condition, *(self.names[name] for name in names)]
        self.place.body.append(loop)
        outer, self.place = self.place, loop.addBlock()
        number = self._add_parameter("", "int")
        for name in names:
            self.names[name] = self._add_parameter(name, before[name].type().annotation_str)
        if start is not None:
            start(number)
        if any(isinstance(n, ast.Return) for statement in body for n in ast.walk(statement)):
            raise NotImplementedError("a return within a loop in a graph")
        self.run(body)
        again = self._find_condition(test, flags)
        self.place.results = [again, *(self.names[name] for name in names)]
        ends = self.place.results[1:]
        self.place, self.names = outer, before
        loop.results = [Value(self.fresh(), end.type() if before[name].type().annotation_str in (
            "Any",) else before[name].type(), loop)
            for name, end in zip(names, ends, strict=True)]
        self.rename(names, loop.results)

    def _find_condition(self, test: ast.expr | None, flags: list[str]) -> Value:
        """Return whether another round follows."""
        if not flags:
            return self.constant(True, "bool") if test is None else self.visit(test)
        text = f"not ({' or '.join(flags)})"
        tree = ast.parse(text, mode="eval").body
        return self.visit(tree if test is None else ast.BoolOp(ast.And(), [tree, test]))

    def _add_parameter(self, name: str, kind: str) -> Value:
        value = Value(self.fresh(name), self.kind(kind), self.place.parameters)
        self.place.parameters.results.append(value)
        return value

    def _iterate(self, source: ast.expr) -> tuple[Value, _Item]:
        """Return how many rounds a loop has, and what its target is in each."""
        path = ast.unparse(source.func) if isinstance(source, ast.Call) else ""
        if isinstance(source, ast.Call) and path == "range":
            return self._iterate_range([self.visit(x) for x in source.args])
        if isinstance(source, ast.Call) and path == "enumerate":
            count, item = self._iterate(source.args[0])
            first = self.visit(source.args[1]) if len(source.args) > 1 else None

            def numbered(number: Value) -> list[Value]:
                index = number if first is None else self.add(
                    "aten::add", [number, first], "int")
                return [index, *self._pack(item(number))]

            return count, numbered
        if isinstance(source, ast.Call) and path == "zip":
            parts = [self._iterate(x) for x in source.args]
            counts = self.add("prim::ListConstruct", [count for count, _ in parts], "List[int]")
            return self.add("prim::min", [counts], "int"), lambda number: [
                value for _, item in parts for value in self._pack(item(number))]
        return self._iterate_values(self.visit(source))

    def _pack(self, values: list[Value]) -> list[Value]:
        if len(values) == 1:
            return values
        kinds = ", ".join(value.type().annotation_str for value in values)
        return [self.add("prim::TupleConstruct", values, f"Tuple[{kinds}]")]

    def _iterate_range(self, bounds: list[Value]) -> tuple[Value, _Item]:
        if len(bounds) == 1:
            return bounds[0], lambda number: [number]
        step = bounds[2] if len(bounds) > 2 else self.constant(1, "int")
        count = self.add("aten::__range_length", [*bounds[:2], step], "int")
        return count, lambda number: [self.add(
            "aten::__derive_index", [number, bounds[0], step], "int")]

    def _iterate_values(self, values: Value) -> tuple[Value, _Item]:
        head, inner = split_type(values.type().annotation_str)
        if head == "Dict":
            values = self.add("aten::keys", [values], f"List[{inner[0]}]")
            head = "List"
        self.note_inexact(head not in ("List", "Tensor", "str"), f"a loop over {head}")
        count = self.add("aten::len", [values], "int")
        if head == "Tensor":
            axis = self.constant(0, "int")
            return count, lambda number: [self.add("aten::select", [values, axis, number],
                                                   "Tensor")]
        kind = inner[0] if inner else "str"
        return count, lambda number: [self.add("aten::__getitem__", [values, number], kind)]

    def _listcomp(self, node: ast.ListComp) -> Value:
        return self.comprehend(node)

    def _dictcomp(self, node: ast.DictComp) -> Value:
        return self.comprehend(node)

    def comprehend(self, node: ast.ListComp | ast.DictComp) -> Value:
        """Add a loop that fills a list or dict."""
        if len(node.generators) > 1:
            raise NotImplementedError("two loops in a comprehension in a graph")
        (generator,) = node.generators
        is_list = isinstance(node, ast.ListComp)
        result = self.add("prim::ListConstruct" if is_list else "prim::DictConstruct", [],
                          "List[Tensor]" if is_list else "Dict[str, Tensor]")
        count, item = self._iterate(generator.iter)
        outer = dict(self.names)

        def fill() -> list[Value]:
            if isinstance(node, ast.ListComp):
                element = self.visit(node.elt)
                result._kind = self.kind(f"List[{element.type().annotation_str}]")
                self.add("aten::append", [result, element], result._kind.annotation_str)
            else:
                pair = [self.visit(node.key), self.visit(node.value)]
                kinds = ", ".join(value.type().annotation_str for value in pair)
                result._kind = self.kind(f"Dict[{kinds}]")
                self.add("aten::_set_item", [result, *pair], "")
            return []

        def start(number: Value) -> None:
            self._assign_items(generator.target, item(number))
            if generator.ifs:
                test = ast.BoolOp(ast.And(), generator.ifs) if len(generator.ifs) > 1 \
                    else generator.ifs[0]
                self.branch(self.visit(test), [fill, list])
            else:
                fill()

        self._loop([], count, self.constant(True, "bool"), None, [], start)
        self.names = outer
        return result

    def add_fork(self, node: ast.Call) -> Value:
        """Add prim::fork, whose block is what runs beside the rest."""
        arguments = [self.visit(x) for x in node.args[1:]]
        called = node.args[0]
        owner: Any = None
        path = ast.unparse(called)
        if path not in self.definitions.functions:
            if not isinstance(called, ast.Attribute):
                raise NotImplementedError(f"a fork of {path} in a graph")
            owner = self.visit(called.value)
        fork = Node("prim::fork", self.place)
        fork.arguments = arguments
        self.place.body.append(fork)
        outer, self.place = self.place, fork.addBlock()
        passed = [self._add_parameter("", value.type().annotation_str) for value in arguments]
        if owner is None:
            result = self._call_function(path, self.bind_arguments(
                self.definitions.functions[path], passed, {}))
        else:
            result = self.call_method(owner, called.attr, passed)  # type: ignore[attr-defined]
        self.place.results, self.place = [result], outer
        fork.results = [Value(self.fresh(), self.kind(
            f"Future[{result.type().annotation_str}]"), fork)]
        return fork.results[0]


def _list_assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign."""
    return list(dict.fromkeys(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)
                              and isinstance(n.ctx, ast.Store)))
