"""Conditions on numbers read from tensors: what the program states, and what follows from it.

A number read from a tensor is *unbacked*: no input size determines it, so only facts stated with
torch._check can decide a branch on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...fx.node import Node
from ...fx.trace_errors import explain
from ...tensor.symbolic_length import SymBool
from ..errors import GuardOnDataDependentSymNode
from .expressions import Expression, SymbolTable

__all__ = ["NEGATIONS", "SymbolicBool", "SymbolicValue", "build_undecided_error"]

NEGATIONS = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


class SymbolicValue:
    """A value that a node computes; the node is added to the graph on first use."""

    table: SymbolTable | None
    _make: Callable[[], Node]
    _node: Node | None

    @property
    def node(self) -> Node:
        """The node that computes it."""
        if self._node is None:
            self._node = self._make()
            _note_value(self._node, self, self.table)
        return self._node


class SymbolicBool(SymbolicValue, SymBool):
    """A condition on unbacked numbers. torch._check states it; `if` asks whether it holds."""

    def __init__(self, value: bool, make: Callable[[], Node], text: str, relation: str = "",
                 difference: Expression | None = None, table: SymbolTable | None = None) -> None:
        self.value, self._make, self.text = value, make, text
        self._node = None
        self.relation, self.difference, self.table = relation, difference, table

    def __repr__(self) -> str:
        return self.text

    def apply_function(self, function: Callable[..., Any], args: tuple) -> Any:
        """Return the negation for torch.sym_not; raise NotImplementedError otherwise."""
        if function.__name__ != "sym_not":
            raise NotImplementedError(f"torch.export: {function.__name__} of a condition")

        def make() -> Node:
            return self.node.graph.call_function(function, (self.node,))

        return SymbolicBool(not self.value, make, f"not ({self.text})",
                            NEGATIONS.get(self.relation, ""), self.difference, self.table)

    def answer(self) -> bool | None:
        """Return whether the condition holds, or None if unknown."""
        if self.difference is None or self.table is None:
            return None
        return self.table.answer(self.relation, self.difference)

    def __bool__(self) -> bool:
        answer = self.answer()
        if answer is None:
            raise build_undecided_error(self.text)
        return answer

    def require(self, message: Any = None) -> None:
        """Add a runtime assertion to the graph; the rest of the trace may rely on it."""
        answer = self.answer()
        if answer:
            return
        if answer is False or not self.value:
            raise RuntimeError(str(message()) if callable(message) else
                               f"Expected cond to be True, but got False: {self.text}")
        from ...ops.core.aten import aten

        node = self.node
        text = f"Runtime assertion failed for expression {self.text} on node '{node.name}'"
        call = node.graph.create_node("call_function", aten._assert_scalar.default, (node, text),
                                      {}, "_assert_scalar")
        _note_value(call, None, self.table)
        if self.difference is not None and self.table is not None:
            self.table.assume(self.relation, self.difference)


def _note_value(node: Node, value: Any, table: SymbolTable | None) -> None:
    node.meta.setdefault("val", value)
    if table is not None:
        table.note(node)


def build_undecided_error(text: str) -> GuardOnDataDependentSymNode:
    """Return the error for a branch on a number read from a tensor."""
    error = GuardOnDataDependentSymNode(
        f"Could not guard on data-dependent expression {text} (unhinted: {text})"
    )
    explain(error, "State what holds by torch._check, or compute with tensors: torch.where for a "
                   "branch, torch.cond for two ways.")
    return error
