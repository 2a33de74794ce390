"""Symbol: one element of a tensor while an update formula is traced into the loop IR.

It has the Tensor methods that update formulas use, under the same names. Each gives the expression
of the same value with the same roundings; in-place methods rebind the symbol.
"""

from __future__ import annotations

import struct
from typing import Any

from flambeau.native.loops import Apply, Constant, Expression, Scalar, Type


class Symbol:
    """A value of the loop's body; see the module."""

    __slots__ = ("value",)

    def __init__(self, value: Expression) -> None:
        self.value = value

    @property
    def type(self) -> Type:
        """The type of its elements."""
        return self.value.type

    def _operand(self, value: Any) -> Expression:
        """A symbol's value, or a number as a constant rounded to the element type."""
        if isinstance(value, Symbol):
            return value.value
        if self.type is Type.F32:
            (value,) = struct.unpack("f", struct.pack("f", value))
        return Constant(self.type, float(value))

    def _apply(self, operation: Scalar, *operands: Any) -> Symbol:
        given = tuple(self._operand(x) for x in operands)
        return Symbol(Apply(operation, given, self.type))

    def _compare(self, operation: Scalar, a: Any, b: Any) -> Expression:
        return Apply(operation, (self._operand(a), self._operand(b)), Type.BOOL)

    def _select(self, condition: Expression, a: Any, b: Any) -> Symbol:
        given = (condition, self._operand(a), self._operand(b))
        return Symbol(Apply(Scalar.WHERE, given, self.type))

    def _set(self, other: Symbol) -> Symbol:
        self.value = other.value
        return self

    def _scaled(self, value: Any, scale: Any) -> Any:
        if isinstance(scale, int) and scale == 1:
            return value
        return self._apply(Scalar.MUL, value, scale)

    def __neg__(self) -> Symbol:
        return self._apply(Scalar.NEG, self)

    def add(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._apply(Scalar.ADD, self, self._scaled(other, alpha))

    def add_(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._set(self.add(other, alpha=alpha))

    def sub(self, other: Any) -> Symbol:
        return self._apply(Scalar.SUB, self, other)

    def mul(self, other: Any) -> Symbol:
        return self._apply(Scalar.MUL, self, other)

    def mul_(self, other: Any) -> Symbol:
        return self._set(self.mul(other))

    def div(self, other: Any) -> Symbol:
        return self._apply(Scalar.DIV, self, other)

    def addcmul(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self.add(self._scaled(self._apply(Scalar.MUL, a, b), value))

    def addcmul_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._set(self.addcmul(a, b, value=value))

    def addcdiv_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        quotient = self._apply(Scalar.DIV, self._scaled(a, value), b)
        return self._set(self.add(quotient))

    def lerp_(self, end: Any, weight: Number) -> Symbol:
        """From the nearer end, as PyTorch interpolates: exact at weights 0 and 1."""
        gap = self._apply(Scalar.SUB, end, self)
        near = Apply(Scalar.LT, (weight.wide, Constant(Type.F64, 0.5)), Type.BOOL)
        rest = Apply(Scalar.SUB, (Constant(Type.F64, 1.0), weight.wide), Type.F64)
        from_start = self.add(gap.mul(weight))
        from_end = self._apply(Scalar.SUB, end, gap.mul(Symbol(narrowed(rest, self.type))))
        return self._set(self._select(near, from_start, from_end))

    def sqrt(self) -> Symbol:
        return self._apply(Scalar.SQRT, self)

    def abs(self) -> Symbol:
        return self._apply(Scalar.ABS, self)

    def reciprocal(self) -> Symbol:
        return self._apply(Scalar.DIV, 1.0, self)

    def maximum(self, other: Any) -> Symbol:
        """The greater, this one where they are equal but for a sign; NaN when either is."""
        greater = self._select(self._compare(Scalar.LE, self, other), other, self)
        return self._select(self._compare(Scalar.NE, other, other), other, greater)

    def clamp_(self, low: Any, high: Any) -> Symbol:
        raised = self._select(self._compare(Scalar.LT, self, low), low, self)
        return self._set(self._select(self._compare(Scalar.GT, raised, high), high, raised))

    def sign(self) -> Symbol:
        one = self._select(self._compare(Scalar.GT, self, 0.0), 1.0, 0.0)
        return self._select(self._compare(Scalar.LT, self, 0.0), -1.0, one)

    def gt(self, other: Any) -> Expression:
        return self._compare(Scalar.GT, self, other)

    def lt(self, other: Any) -> Expression:
        return self._compare(Scalar.LT, self, other)

    def eq(self, other: Any) -> Expression:
        return self._compare(Scalar.EQ, self, other)

    def masked_fill(self, condition: Expression, value: Any) -> Symbol:
        return self._select(condition, value, self)

    def clone(self) -> Symbol:
        return Symbol(self.value)

    def copy_(self, source: Any) -> Symbol:
        self.value = self._operand(source)
        return self


class Number(Symbol):
    """A number that may change from step to step: its value, and `wide`, before rounding."""

    __slots__ = ("wide",)

    def __init__(self, wide: Expression, type: Type) -> None:
        super().__init__(narrowed(wide, type))
        self.wide = wide


def narrowed(wide: Expression, type: Type) -> Expression:
    """A double rounded to the element type."""
    return wide if type is Type.F64 else Apply(Scalar.CAST, (wide,), type)
