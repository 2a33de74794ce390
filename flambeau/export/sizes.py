"""SymbolicSize: a length that may differ from call to call, and computes like an int.

A trace runs on two inputs of different lengths at once. A length that differs between the two is
dynamic: it is an int with the first value that knows the second one and its node in the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..fx.node import Node
from ..fx.trace_errors import explain
from .errors import UserError

__all__ = ["SpecializationError", "SymbolicSize", "plain", "twin"]


class SpecializationError(UserError):
    """A program that takes another way for another length of a dynamic dimension."""


class SymbolicSize(int):
    """A length of a dynamic dimension. `other`: its value in the trace's second input."""

    other: int
    _make: Callable[[], Node]
    _node: Node | None

    def __new__(cls, value: int, other: int, make: Callable[[], Node]) -> SymbolicSize:
        size = int.__new__(cls, value)
        size.other, size._make, size._node = other, make, None
        return size

    @property
    def node(self) -> Node:
        """The node that computes it, added on first use."""
        if self._node is None:
            self._node = self._make()
        return self._node

    __hash__ = int.__hash__

    def __int__(self) -> int:
        return self

    __index__ = __int__

    def __reduce__(self) -> Any:
        return int, (plain(self),)


def plain(value: Any) -> Any:
    """The value as the first input has it."""
    return int.__add__(value, 0) if isinstance(value, SymbolicSize) else value


def twin(value: Any) -> Any:
    """The value as the second input has it."""
    return value.other if isinstance(value, SymbolicSize) else value


def _compute(name: str, reflected: bool) -> Callable[..., Any]:
    function: Any = getattr(operator, name)

    def method(self: SymbolicSize, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        if not all(isinstance(a, (int, float)) for a in args):
            return NotImplemented
        value, other = function(*map(plain, args)), function(*map(twin, args))
        if isinstance(value, float):
            return value
        if value == other and name != "neg":
            return value

        def make() -> Node:
            nodes = tuple(a.node if isinstance(a, SymbolicSize) else a for a in args)
            graph = self.node.graph
            return graph.call_function(function, nodes)

        return SymbolicSize(value, other, make)

    return method


def _compare(name: str) -> Callable[..., Any]:
    function: Any = getattr(operator, name)

    def method(self: SymbolicSize, with_what: Any) -> Any:
        if not isinstance(with_what, (int, float)):
            return NotImplemented
        value = function(plain(self), plain(with_what))
        if value != function(twin(self), twin(with_what)):
            error = SpecializationError(
                f"Constraints violated: the program decides by a dynamic size ({plain(self)} here)"
                f" {name} {plain(with_what)}, which not all its sizes answer alike"
            )
            explain(error, "Take the dimension out of `dynamic_shapes`, or write the program "
                           "without this decision.")
            raise error
        return value

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
    setattr(SymbolicSize, f"__{_name}__", _compute(_name, False))
    setattr(SymbolicSize, f"__r{_name}__", _compute(_name, True))
SymbolicSize.__neg__ = _compute("neg", False)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymbolicSize, f"__{_name}__", _compare(_name))
