"""Convert comprehensions; find the items of loops over modules, to unroll them."""

from __future__ import annotations

import ast
import copy
from typing import Any

from ....nn.module import Module
from .filters import name_item
from .source_expressions import SourceExpressions
from .static_values import Static, list_elements, list_loop_items

__all__ = ["SourceLoops"]


class SourceLoops(SourceExpressions):
    """Unrolls comprehensions over modules; keeps those over run-time values."""

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """Unroll a comprehension over modules."""
        if len(node.generators) != 1:
            self.refuse(node, "a comprehension with two loops")
        modules = self._list_modules(node.generators[0].iter)
        if modules is None:
            if node.generators[0].ifs:
                self.refuse(node, "a comprehension with a condition within another expression: "
                                  "assign it to a name first")
            name_item(node, "_item")
            self.scope.locals.add("_item")
            return self.generic_visit(node)
        result = []
        for items in modules:
            self._bind_items(node.generators[0].target, items)
            tests = [self.scope.find(condition) for condition in node.generators[0].ifs]
            if None in tests:
                self.refuse(node, "a condition on modules that is known only at run time")
            if all(test.value for test in tests if test is not None):
                result.append(self.visit(copy.deepcopy(node.elt)))
        return ast.List(result)

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        """Keep a dict comprehension over run-time values."""
        if len(node.generators) != 1 or node.generators[0].ifs:
            self.refuse(node, "a comprehension of a dict with a condition or two loops: fill it "
                              "in a loop")
        name_item(node, "_item")
        self.scope.locals.add("_item")
        return self.generic_visit(node)

    def _bind_items(self, target: ast.expr, items: list[Static]) -> None:
        """Bind the names in a loop target to one iteration's items."""
        names = [n for n in ast.walk(target) if isinstance(n, (ast.Name, ast.Attribute))]
        names.sort(key=lambda n: (n.lineno, n.col_offset))
        if len(names) != len(items) or not all(isinstance(n, ast.Name) for n in names):
            self.refuse(target, "a loop over modules with this target")
        for name, item in zip(names, items, strict=True):
            self.scope.known[name.id] = item  # type: ignore[union-attr]

    def _list_modules(self, node: ast.expr) -> list[list[Static]] | None:
        """Return the items of each iteration over modules or parameters, or None for others."""
        container = self.scope.find(node)
        if container is not None and isinstance(container.value, Module):
            items = list_loop_items(container)
            if items is None:
                self.refuse(node, f"a loop over a {type(container.value).__name__}")
            return [[item] for item in items]
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            modules, part = self._list_modules(node.value), self.scope.find_slice(node.slice)
            return None if modules is None or part is None else modules[part]
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Name) and node.args:
            return self._list_modules_in_call(node, node.func.id)
        if isinstance(node.func, ast.Attribute):
            owner = self.scope.find(node.func.value)
            if owner is not None and isinstance(owner.value, Module):
                elements = list_elements(owner)
                if node.func.attr in ("values", "children"):
                    return [[x] for x in elements.values()]
                if node.func.attr in ("items", "named_children"):
                    return [[Static(name), x] for name, x in elements.items()]
                if node.func.attr == "keys":
                    return [[Static(name)] for name in elements]
        return None

    def _list_modules_in_call(self, node: ast.Call, name: str) -> list[list[Static]] | None:
        """Return the items of `enumerate`, `zip` or `reversed` over modules, or None.

        `zip` may combine modules with known lists.
        """
        if name not in ("enumerate", "zip", "reversed"):
            return None
        first = self._list_modules(node.args[0])
        if name == "reversed":
            return None if first is None else first[::-1]
        if name == "enumerate":
            start = [*node.args[1:], *(k.value for k in node.keywords)]
            offset = self.scope.find(start[0]) if start else Static(0)
            if first is None or offset is None:
                return None
            return [[Static(i), *row] for i, row in enumerate(first, offset.value)]
        parts = [self._list_modules(a) for a in node.args]
        if all(part is None for part in parts):
            return None
        for place, part in enumerate(parts):
            values = self.scope.find(node.args[place]) if part is None else None
            if values is not None and isinstance(values.value, (list, tuple, range)):
                parts[place] = [[Static(v)] for v in values.value]
        if any(part is None for part in parts):
            self.refuse(node, "a zip of modules with what is known only at run time")
        return [[item for items in row for item in items]
                for row in zip(*[p for p in parts if p is not None], strict=False)]
