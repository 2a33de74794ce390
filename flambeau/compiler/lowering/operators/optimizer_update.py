"""trace_update: run an optimizer's update formula on symbols, which turns it into graph nodes.

Each method computes what the tensor method of the same name does, with the same roundings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ....native.loop_ir.ir import Scalar, Type
from ....native.loop_ir.tensor_facade import TensorFacade
from ...ir.graph import Node, Op
from ..numpy.node_builders import apply_operation, cast, compute_type, number, where


def trace_update(
    formula: Callable, flags: Any, scalars: type, numbers: list[Node], tensors: list[Node]
) -> list[Node]:
    """Return the new values of (param, grad, *states) after formula(flags, scalars, ...)."""
    type = tensors[0].type
    numbers_by_name = scalars(*[StepNumber(number, type) for number in numbers])
    symbols = [UpdateSymbol(tensor) for tensor in tensors]
    formula(flags, numbers_by_name, *symbols)
    return [symbol.node for symbol in symbols]


def copy_update(
    results: list[Node], old: list[Node], new: list[Node], numbers: list[Node]
) -> list[Node] | None:
    """Copy a traced update to new operands of the same shapes and types: ten times faster than
    tracing.

    Share the nodes that depend on numbers alone. Return None if the update reads anything else.
    """
    copies = {id(number): number for number in numbers} | {
        id(a): b for a, b in zip(old, new, strict=True)
    }
    stack = list(results)
    while stack:
        node = stack[-1]
        missing = [input for input in node.inputs if id(input) not in copies]
        if id(node) in copies or not missing:
            stack.pop()
        else:
            stack += missing
            continue
        if id(node) not in copies:
            if not node.inputs and node.op is not Op.CONSTANT:
                return None
            inputs = tuple([copies[id(input)] for input in node.inputs])
            same = all(map(operator.is_, inputs, node.inputs))
            copies[id(node)] = node if same else Node(
                node.op, inputs, node.shape, node.type, node.attributes, node.origin
            )
    return [copies[id(result)] for result in results]


class UpdateSymbol(TensorFacade):
    """A tensor whose value is a node; in-place methods replace the node."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def _convert_operand(self, value: Any) -> Node:
        """The node of another operand, in the type used to compute with this one."""
        type = compute_type(self.node.type)
        if isinstance(value, StepNumber):
            return cast(value.wide, type)
        if isinstance(value, UpdateSymbol):
            return cast(value.node, type)
        return number(float(value), type)

    def _do(self, operation: Scalar, *operands: Any) -> UpdateSymbol:
        value = apply_operation(operation, *map(self._convert_operand, operands))
        return UpdateSymbol(cast(value, self.node.type))

    def _test(self, operation: Scalar, a: Any, b: Any) -> Node:
        return apply_operation(
            operation, self._convert_operand(a), self._convert_operand(b), type=Type.BOOL
        )

    def _choose(self, condition: Node, a: Any, b: Any) -> UpdateSymbol:
        value = where(condition, self._convert_operand(a), self._convert_operand(b))
        return UpdateSymbol(cast(value, self.node.type))

    def _set(self, other: UpdateSymbol) -> UpdateSymbol:
        self.node = other.node
        return self

    def lerp_(self, end: Any, weight: Any) -> UpdateSymbol:
        """Interpolate from the nearer end, as PyTorch does: exact at weights 0 and 1."""
        exact = weight.wide if isinstance(weight, StepNumber) else number(float(weight), Type.F64)
        gap = self._do(Scalar.SUB, end, self)
        rest = StepNumber(apply_operation(Scalar.SUB, number(1.0, Type.F64), exact), self.node.type)
        is_near_start = apply_operation(Scalar.LT, exact, number(0.5, Type.F64), type=Type.BOOL)
        first = self._do(Scalar.ADD, self, self._do(Scalar.MUL, gap, weight))
        second = self._do(Scalar.SUB, end, self._do(Scalar.MUL, gap, rest))
        return self._set(self._choose(is_near_start, first, second))

    def maximum(self, other: Any) -> UpdateSymbol:
        return self._do(Scalar.MAXIMUM, self, other)

    def clone(self) -> UpdateSymbol:
        return UpdateSymbol(self.node)

    def copy_(self, source: Any) -> UpdateSymbol:
        return self._set(UpdateSymbol(cast(self._convert_operand(source), self.node.type)))


class StepNumber(UpdateSymbol):
    """A number that may change between steps; `wide` holds it in double precision."""

    __slots__ = ("wide",)

    def __init__(self, exact: Node, type: Type) -> None:
        super().__init__(cast(exact, type))
        self.wide = exact
