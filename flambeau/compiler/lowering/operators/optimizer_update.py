"""Formula: an optimiser's update run on symbols, which turns it into nodes of the graph.

Each method computes what the tensor method of its name does, with the same roundings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ....native.loop_ir.ir import Scalar, Type
from ....native.loop_ir.tensor_facade import TensorFacade
from ...ir.graph import Node, Op
from ..numpy.node_builders import applied, cast, computed, number, where


def updated(
    formula: Callable, flags: Any, scalars: type, numbers: list[Node], tensors: list[Node]
) -> list[Node]:
    """The new values of (param, grad, *states) after formula(flags, scalars, ...)."""
    type = tensors[0].type
    named = scalars(*[Number(one, type) for one in numbers])
    symbols = [Symbol(one) for one in tensors]
    formula(flags, named, *symbols)
    return [symbol.node for symbol in symbols]


def copied(
    made: list[Node], old: list[Node], new: list[Node], numbers: list[Node]
) -> list[Node] | None:  # fmt: skip
    """What `updated` made of `old`, for others of the same shapes and types: ten times faster.

    What depends on numbers alone is shared. None where something else is read, too.
    """
    copies = {id(one): one for one in numbers} | {
        id(a): b for a, b in zip(old, new, strict=True)
    }
    stack = list(made)
    while stack:
        node = stack[-1]
        missing = [one for one in node.inputs if id(one) not in copies]
        if id(node) in copies or not missing:
            stack.pop()
        else:
            stack += missing
            continue
        if id(node) not in copies:
            if not node.inputs and node.op is not Op.CONSTANT:
                return None
            inputs = tuple([copies[id(one)] for one in node.inputs])
            same = all(map(operator.is_, inputs, node.inputs))
            copies[id(node)] = node if same else Node(
                node.op, inputs, node.shape, node.type, node.attributes, node.origin
            )  # fmt: skip
    return [copies[id(one)] for one in made]


class Symbol(TensorFacade):
    """A tensor whose value is a node; methods in place give it another."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def _operand(self, value: Any) -> Node:
        """Another operand, in the type that this one computes with."""
        type = computed(self.node.type)
        if isinstance(value, Number):
            return cast(value.wide, type)
        if isinstance(value, Symbol):
            return cast(value.node, type)
        return number(float(value), type)

    def _do(self, operation: Scalar, *operands: Any) -> Symbol:
        found = applied(operation, *map(self._operand, operands))
        return Symbol(cast(found, self.node.type))

    def _test(self, operation: Scalar, a: Any, b: Any) -> Node:
        return applied(operation, self._operand(a), self._operand(b), type=Type.BOOL)

    def _choose(self, condition: Node, a: Any, b: Any) -> Symbol:
        found = where(condition, self._operand(a), self._operand(b))
        return Symbol(cast(found, self.node.type))

    def _set(self, other: Symbol) -> Symbol:
        self.node = other.node
        return self

    def lerp_(self, end: Any, weight: Any) -> Symbol:
        """From the nearer end, as PyTorch interpolates: exact at weights 0 and 1."""
        wide = weight.wide if isinstance(weight, Number) else number(float(weight), Type.F64)
        gap = self._do(Scalar.SUB, end, self)
        rest = Number(applied(Scalar.SUB, number(1.0, Type.F64), wide), self.node.type)
        near = applied(Scalar.LT, wide, number(0.5, Type.F64), type=Type.BOOL)
        first = self._do(Scalar.ADD, self, self._do(Scalar.MUL, gap, weight))
        second = self._do(Scalar.SUB, end, self._do(Scalar.MUL, gap, rest))
        return self._set(self._choose(near, first, second))

    def maximum(self, other: Any) -> Symbol:
        return self._do(Scalar.MAXIMUM, self, other)

    def clone(self) -> Symbol:
        return Symbol(self.node)

    def copy_(self, source: Any) -> Symbol:
        return self._set(Symbol(cast(self._operand(source), self.node.type)))


class Number(Symbol):
    """A number that may change from step to step, in double precision: `wide`."""

    __slots__ = ("wide",)

    def __init__(self, wide: Node, type: Type) -> None:
        super().__init__(cast(wide, type))
        self.wide = wide
