"""Evaluate parts of a function's source statically: modules, settings, globals.

A module's submodules and plain attributes are known statically; its tensors and `training` are not.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from dataclasses import dataclass
from typing import Any

from ....nn import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from ....nn.module import Module
from ....tensor.tensor import Tensor
from .annotations import SCRIPTED_CLASSES
from .classes import write_attribute_read
from .module_state import ModuleState

__all__ = ["Scope", "Static", "list_elements", "list_loop_items"]

_COMPARE = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
            ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
            ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
            ast.NotIn: lambda a, b: a not in b}
# Pure functions that may run at write time.
_LOOKS = (len, isinstance, hasattr, getattr, range, issubclass, tuple, list, min, max, abs, bool)


@dataclass
class Static:
    """A statically known value.

    For modules and their parameters, `text` is the TorchScript expression that reads it.
    """

    value: Any
    text: str | None = None


def list_elements(container: Static) -> dict[str, Static]:
    """Return the elements of a container of modules or parameters, by name."""
    owner = container.value
    if isinstance(owner, ParameterList):
        elements = {str(i): owner[i] for i in range(len(owner))}
    elif isinstance(owner, ParameterDict):
        elements = dict(owner.items())
    else:
        elements = owner._modules
    return {
        name: Static(x, write_attribute_read(container.text or "self", name)
                     if isinstance(x, (Module, Tensor)) else None)
        for name, x in elements.items()
    }


def list_loop_items(container: Static) -> list[Static] | None:
    """Return the items of a loop over a container, or None if its class redefines `__iter__`."""
    iterates = getattr(type(container.value), "__iter__", None)
    if iterates in (ModuleDict.__iter__, ParameterDict.__iter__):
        return [Static(name) for name in list_elements(container)]
    if iterates in (Sequential.__iter__, ModuleList.__iter__, ParameterList.__iter__):
        return list(list_elements(container).values())
    return None


class Scope:
    """Resolves the names of one function."""

    def __init__(self, function: Any, owner: Module | None, assigned: set[str],
                 state: ModuleState) -> None:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.closure = {name: cell.cell_contents for name, cell in cells}
        self.outer = {**vars(builtins), **function.__globals__, **self.closure}
        self.locals, self.state = assigned, state
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
            static = self.known[node.id]
            return None if static.text and isinstance(static.value, Tensor) else static
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
        return self._read_module_attribute(owner, node.attr)

    def _read_module_attribute(self, owner: Static, name: str) -> Static | None:
        if name == "training":
            return None
        value = getattr(owner.value, name)
        if isinstance(value, Module):
            return Static(value, write_attribute_read(owner.text or "self", name))
        if _has_state(value):
            self.state.change(owner.value, name)
        if isinstance(value, Tensor) or self.state.is_changing(owner.value, name):
            return None
        return Static(value, owner.text)

    def _subscript(self, node: ast.Subscript) -> Static | None:
        owner, key = self.find(node.value), self.find(node.slice)
        if owner is None or key is None:
            return None
        if isinstance(owner.value, Module):
            static = _find_element(owner, key.value)
            return None if static is None or isinstance(static.value, Tensor) else static
        if isinstance(owner.value, (tuple, list, dict)):
            try:
                return Static(owner.value[key.value])
            except (KeyError, IndexError):  # the key may exist at run time
                return None
        return None

    def find_slice(self, node: ast.Slice) -> slice | None:
        """Return a slice, or None if a bound is unknown."""
        bounds = [Static(None) if bound is None else self.find(bound)
                  for bound in (node.lower, node.upper, node.step)]
        if any(bound is None for bound in bounds):
            return None
        return slice(*(bound.value for bound in bounds if bound is not None))

    def find_parameter(self, node: ast.Subscript) -> Static | None:
        """Return a parameter in a container, for its location rather than its value."""
        owner, key = self.find(node.value), self.find(node.slice)
        if owner is None or key is None or not isinstance(owner.value, Module):
            return None
        static = _find_element(owner, key.value)
        return static if static is not None and isinstance(static.value, Tensor) else None

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
        """Return the value if one known operand decides it or all are known."""
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
            if look is getattr and args[0] is not None and isinstance(args[0].value, Module) \
                    and hasattr(*values[:2]):
                return self._read_module_attribute(args[0], values[1])
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


def _has_state(value: Any) -> bool:
    """Return whether to read a value at run time: script-class objects and tuples of tensors."""
    if isinstance(value, tuple):
        return any(isinstance(v, Tensor) or _has_state(v) for v in value)
    return type(value) in SCRIPTED_CLASSES


def _find_element(owner: Static, key: Any) -> Static | None:
    elements = list_elements(owner)
    if isinstance(key, int):
        return list(elements.values())[key]
    return elements[key] if isinstance(key, str) else None
