"""Static evaluation of a function's source: modules, settings, globals.

A module's submodules and plain attributes are known; its tensors and `training` are not.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from dataclasses import dataclass
from typing import Any

from ....nn.module import Module
from ....tensor.tensor import Tensor
from .classes import attribute_read

__all__ = ["Scope", "Static"]

_COMPARE = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
            ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
            ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
            ast.NotIn: lambda a, b: a not in b}
# Pure functions that may be evaluated while writing.
_LOOKS = (len, isinstance, hasattr, getattr, range, issubclass, tuple, list, min, max, abs, bool)


@dataclass
class Static:
    """A known value. For modules, `text` is the TorchScript expression that reads it."""

    value: Any
    text: str | None = None


class Scope:
    """The names of one function."""

    def __init__(self, function: Any, owner: Module | None, assigned: set[str],
                 written: set[str]) -> None:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.outer = {**vars(builtins), **function.__globals__,
                      **{name: cell.cell_contents for name, cell in cells}}
        self.locals, self.written = assigned, written
        self.known: dict[str, Static] = {}
        if owner is not None:
            self.known[code.co_varnames[0]] = Static(owner, "self")

    def find(self, node: ast.AST) -> Static | None:
        """Return the value of an expression, or None if it is known only at run time."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        return None if method is None else method(node)

    def _constant(self, node: ast.Constant) -> Static:
        return Static(node.value)

    def _name(self, node: ast.Name) -> Static | None:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in self.locals or node.id not in self.outer:
            return None
        return Static(self.outer[node.id])

    def _attribute(self, node: ast.Attribute) -> Static | None:
        owner = self.find(node.value)
        if owner is None or isinstance(owner.value, (Tensor, str, int, float, list, tuple, dict)):
            return None
        if not isinstance(owner.value, Module):
            return Static(getattr(owner.value, node.attr)) if hasattr(owner.value, node.attr) \
                else None
        return self._of_module(owner, node.attr)

    def _of_module(self, owner: Static, name: str) -> Static | None:
        if name == "training" or (owner.text == "self" and name in self.written):
            return None
        value = getattr(owner.value, name)
        if isinstance(value, Module):
            return Static(value, attribute_read(owner.text or "self", name))
        return None if isinstance(value, Tensor) else Static(value, owner.text)

    def _subscript(self, node: ast.Subscript) -> Static | None:
        owner, key = self.find(node.value), self.find(node.slice)
        if owner is None or key is None:
            return None
        if isinstance(owner.value, Module):
            names = list(owner.value._modules)
            if isinstance(key.value, int):
                name = names[key.value]
            elif isinstance(key.value, str):
                name = key.value
            else:
                return None
            return Static(owner.value._modules[name], attribute_read(owner.text or "self", name))
        if isinstance(owner.value, (tuple, list, dict)):
            return Static(owner.value[key.value])
        return None

    def _unaryop(self, node: ast.UnaryOp) -> Static | None:
        inner = self.find(node.operand)
        if inner is None:
            return None
        if isinstance(node.op, ast.Not):
            return Static(not inner.value)
        if isinstance(node.op, ast.USub) and isinstance(inner.value, (int, float)):
            return Static(-inner.value)
        return None

    def _boolop(self, node: ast.BoolOp) -> Static | None:
        """Known once one operand decides, or if all are known."""
        values = [self.find(v) for v in node.values]
        decides = isinstance(node.op, ast.Or)
        for value in values:
            if value is not None and bool(value.value) is decides:
                return value
        known = [v for v in values if v is not None]
        return known[-1] if len(known) == len(values) else None

    def _compare(self, node: ast.Compare) -> Static | None:
        left = self.find(node.left)
        right = self.find(node.comparators[0])
        if left is None or right is None or len(node.ops) != 1:
            return None
        compare: Any = _COMPARE[type(node.ops[0])]
        return Static(compare(left.value, right.value))

    def _call(self, node: ast.Call) -> Static | None:
        function = self.find(node.func)
        args = [self.find(a) for a in node.args]
        if function is None or node.keywords or any(a is None for a in args):
            return None
        values = [a.value for a in args if a is not None]
        path = getattr(function.value, "__module__", "")
        name = getattr(function.value, "__name__", "")
        if name in ("is_scripting", "is_tracing") and not values and ".jit" in f".{path}":
            return Static(name == "is_scripting")
        if any(function.value is f for f in _LOOKS):
            look: Any = function.value
            return Static(look(*values))
        if function.value is math.sqrt and isinstance(values[0], (int, float)):
            return Static(math.sqrt(values[0]))
        return None

    def _binop(self, node: ast.BinOp) -> Static | None:
        left, right = self.find(node.left), self.find(node.right)
        if left is None or right is None:
            return None
        numbers = (int, float)
        if not isinstance(left.value, numbers) or not isinstance(right.value, numbers):
            return None
        apply: Any = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                 ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
                 ast.Mod: operator.mod, ast.Pow: operator.pow}.get(type(node.op))
        return None if apply is None else Static(apply(left.value, right.value))
