"""Rewrite rules: patterns of nodes with named captures, and replacements for the matched nodes.

A pattern is an expression: `op.RESHAPE(op.RESHAPE(x))`, `scalar.MUL(x, literal(1))`. A rule is a
function of the matched node and the captures that returns None if it does not apply. Rules are
tried in order of declaration. They are indexed by the node's operation and the operation of its
first operand, so most nodes try none.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...native.loop_ir.ir import Scalar
from ..ir import graph as ir
from ..ir.graph import Graph, Node, Op, with_inputs

Replacement = Callable[..., "Node | None"]


@dataclass(frozen=True)
class Pattern:
    """A condition on a node; any node by default. `operands`: patterns of all inputs, if given."""

    ops: tuple[Op, ...] = ()
    operation: Scalar | None = None  # of an APPLY
    operands: tuple[Pattern, ...] | None = None
    test: Callable[[Node], bool] | None = None
    name: str = ""
    is_commutative: bool = False  # two operands, in either order

    def match(self, node: Node, captures: dict[str, Node]) -> bool:
        """Whether a node matches; adds the captured nodes. Equal names must match the same node."""
        if self.ops and node.op not in self.ops:
            return False
        if self.operation is not None and node.attributes["operation"] is not self.operation:
            return False
        if self.test is not None and not self.test(node):
            return False
        if self.name and captures.setdefault(self.name, node) is not node:
            return False
        if self.operands is None:
            return True
        if len(self.operands) != len(node.inputs):
            return False
        for operand, a in zip(self.operands, node.inputs, strict=True):
            if not operand.match(a, captures):
                return False
        return True

    def list_names(self) -> list[str]:
        """The names of the captures, in the order of the pattern."""
        names = [self.name] if self.name else []
        for operand in self.operands or ():
            names += [name for name in operand.list_names() if name not in names]
        return names

    def admits_first(self, first: Op | None) -> bool:
        """Whether a node can match if its first operand has the operation `first`."""
        if not self.operands:
            return True
        return not self.operands[0].ops or first in self.operands[0].ops


def capture(name: str, *ops: Op) -> Pattern:
    """Match any node, or one with an operation in `ops`, and pass it to the rule by this name."""
    return Pattern(ops, name=name)


def literal(value: float, negative_zero: bool = False) -> Pattern:
    """Match a node that is this number everywhere, distinguishing 0.0 from -0.0. `negative_zero`
    requires -0.0 for floating types, the only zero that addition leaves without effect.
    """

    def is_value(node: Node) -> bool:
        return is_literal(node, -0.0 if negative_zero and node.type.floating else value)

    return Pattern((Op.CONSTANT, Op.EXPAND, Op.RESHAPE), test=is_value)


def is_literal(node: Node, value: float) -> bool:
    """Whether a node is this number everywhere."""
    while node.op is Op.EXPAND or node.op is Op.RESHAPE:
        (node,) = node.inputs
    if node.op is not Op.CONSTANT or isinstance(node.value, complex):
        return False
    number = float(node.value)
    return number == value and math.copysign(1.0, number) == math.copysign(1.0, value)


class _OpPatterns:
    """`op.RESHAPE(x)`: a RESHAPE with matching operands; `op.RESHAPE()`: with any operands."""

    def __getattr__(self, name: str) -> Callable[..., Pattern]:
        return lambda *operands: Pattern((Op[name],), operands=operands or None)


class _ScalarPatterns:
    """`scalar.ADD(x, y)`: an APPLY of that scalar operation; `scalar.ANY()`: any APPLY."""

    def __getattr__(self, name: str) -> Callable[..., Pattern]:
        operation = None if name == "ANY" else Scalar[name]
        return lambda *operands, commutes=False: Pattern(
            (Op.APPLY,), operation, operands or None, is_commutative=commutes)


op, scalar = _OpPatterns(), _ScalarPatterns()


@dataclass(frozen=True)
class Rule:
    """Rewrite what a pattern matches; `replace` returns None if the rule does not apply."""

    pattern: Pattern
    replace: Replacement

    def list_patterns(self) -> list[Pattern]:
        """The pattern, and, if it is commutative, the pattern with its operands exchanged."""
        pattern = self.pattern
        if not pattern.is_commutative or pattern.operands is None:
            return [pattern]
        return [pattern, replace(pattern, operands=pattern.operands[::-1])]


def rule(pattern: Pattern) -> Callable[[Replacement], Rule]:
    """Declare a function of (node, captures by name) as the rule of a pattern."""

    def declare(function: Replacement) -> Rule:
        names = ["node", *pattern.list_names()]
        if [*inspect.signature(function).parameters] != names:
            raise TypeError(f"{function.__name__} must take ({', '.join(names)})")
        return Rule(pattern, function)

    return declare


class RuleSet:
    """Rules in order. `repeats`: apply rules to their own results until none applies."""

    def __init__(self, *rules: Rule, repeats: bool = False) -> None:
        self.rules, self.repeats = rules, repeats
        self._ops = {kind for declared in rules for kind in declared.pattern.ops}
        self._index: dict[Any, list[tuple[Pattern, Replacement]]] = {}

    def rewrite(self, graph: Graph) -> Graph:
        """Apply the rules to each node of a graph, inputs first."""
        ops, apply = self._ops, self.apply

        def replace_node(node: Node, inputs: tuple[Node, ...]) -> Node:
            new = with_inputs(node, inputs)
            return apply(new) if new.op in ops else new

        return ir.rewrite(graph, replace_node)

    def apply(self, node: Node) -> Node:
        """Rewrite a node by the first rule that applies; return the node if none does."""
        while True:
            result = self._apply_once(node)
            if result is None:
                return node
            node = result
            if not self.repeats:
                return node

    def _apply_once(self, node: Node) -> Node | None:
        kind = node.attributes["operation"] if node.op is Op.APPLY else node.op
        first = node.inputs[0].op if node.inputs else None
        candidates = self._index.get((kind, first))
        if candidates is None:
            candidates = self._index[kind, first] = self._list_candidates(node, first)
        for pattern, replacement in candidates:
            captures: dict[str, Node] = {}
            if pattern.match(node, captures):
                result = replacement(node, **captures)
                if result is not None and result is not node:
                    return result
        return None

    def _list_candidates(self, node: Node, first: Op | None
                         ) -> list[tuple[Pattern, Replacement]]:
        """The rules that nodes like this one can match."""
        return [
            (pattern, declared.replace)
            for declared in self.rules for pattern in declared.list_patterns()
            if node.op in pattern.ops and pattern.admits_first(first)
            and pattern.operation in (None, node.attributes.get("operation"))
        ]
