"""Formula: an optimiser's update run on symbols, which turns it into nodes of the graph.

The methods are those of tensors that update formulas use, as in optim/symbol.py; each computes
what the tensor method does, with the same roundings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..native.loops import Scalar, Type
from .graph import Node, Op
from .lower.nodes import applied, cast, computed, number, where


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


class Symbol:
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

    def _scaled(self, value: Any, scale: Any) -> Any:
        return value if isinstance(scale, int) and scale == 1 else self._do(
            Scalar.MUL, value, scale
        )  # fmt: skip

    def __neg__(self) -> Symbol:
        return self._do(Scalar.NEG, self)

    def add(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._do(Scalar.ADD, self, self._scaled(other, alpha))

    def add_(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._set(self.add(other, alpha=alpha))

    def sub(self, other: Any) -> Symbol:
        return self._do(Scalar.SUB, self, other)

    def mul(self, other: Any) -> Symbol:
        return self._do(Scalar.MUL, self, other)

    def mul_(self, other: Any) -> Symbol:
        return self._set(self.mul(other))

    def div(self, other: Any) -> Symbol:
        return self._do(Scalar.DIV, self, other)

    def addcmul(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._do(Scalar.ADD, self, self._scaled(self._do(Scalar.MUL, a, b), value))

    def addcmul_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._set(self.addcmul(a, b, value=value))

    def addcdiv_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        quotient = self._do(Scalar.DIV, self._scaled(a, value), b)
        return self._set(self._do(Scalar.ADD, self, quotient))

    def lerp_(self, end: Any, weight: Any) -> Symbol:
        """From the nearer end, as PyTorch interpolates: exact at weights 0 and 1."""
        wide = weight.wide if isinstance(weight, Number) else number(float(weight), Type.F64)
        gap = self._do(Scalar.SUB, end, self)
        rest = Number(applied(Scalar.SUB, number(1.0, Type.F64), wide), self.node.type)
        near = applied(Scalar.LT, wide, number(0.5, Type.F64), type=Type.BOOL)
        first = self._do(Scalar.ADD, self, self._do(Scalar.MUL, gap, weight))
        second = self._do(Scalar.SUB, end, self._do(Scalar.MUL, gap, rest))
        return self._set(self._choose(near, first, second))

    def sqrt(self) -> Symbol:
        return self._do(Scalar.SQRT, self)

    def abs(self) -> Symbol:
        return self._do(Scalar.ABS, self)

    def reciprocal(self) -> Symbol:
        return self._do(Scalar.DIV, 1.0, self)

    def maximum(self, other: Any) -> Symbol:
        return self._do(Scalar.MAXIMUM, self, other)

    def clamp_(self, low: Any, high: Any) -> Symbol:
        raised = self._choose(self._test(Scalar.LT, self, low), low, self)
        return self._set(self._choose(self._test(Scalar.GT, raised, high), high, raised))

    def sign(self) -> Symbol:
        one = self._choose(self._test(Scalar.GT, self, 0.0), 1.0, 0.0)
        return self._choose(self._test(Scalar.LT, self, 0.0), -1.0, one)

    def gt(self, other: Any) -> Node:
        return self._test(Scalar.GT, self, other)

    def lt(self, other: Any) -> Node:
        return self._test(Scalar.LT, self, other)

    def eq(self, other: Any) -> Node:
        return self._test(Scalar.EQ, self, other)

    def masked_fill(self, condition: Node, value: Any) -> Symbol:
        return self._choose(condition, value, self)

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
