"""Symbol: one element of a tensor while an update formula is traced into the loop IR.

It implements the Tensor methods that update formulas use. Each returns the expression of the same
value with the same roundings; in-place methods rebind the symbol.
"""

from __future__ import annotations

import struct
from typing import Any

from ..native.loop_ir.ir import Apply, Constant, Expression, Scalar, Type
from ..native.loop_ir.tensor_facade import TensorFacade


class Symbol(TensorFacade):
    """A value in the loop's body; see the module."""

    __slots__ = ("value", "writes")

    def __init__(self, value: Expression) -> None:
        self.value = value
        self.writes = 0  # number of in-place calls

    @property
    def type(self) -> Type:
        """The element type."""
        return self.value.type

    def _convert_operand(self, value: Any) -> Expression:
        """Return a symbol's value, or a number as a constant rounded to the element type."""
        if isinstance(value, Symbol):
            return value.value
        if self.type is Type.F32:
            (value,) = struct.unpack("f", struct.pack("f", value))
        return Constant(self.type, float(value))

    def _do(self, operation: Scalar, *operands: Any) -> Symbol:
        supplied = tuple(self._convert_operand(x) for x in operands)
        return Symbol(Apply(operation, supplied, self.type))

    def _test(self, operation: Scalar, a: Any, b: Any) -> Expression:
        return Apply(operation, (self._convert_operand(a), self._convert_operand(b)), Type.BOOL)

    def _choose(self, condition: Expression, a: Any, b: Any) -> Symbol:
        supplied = (condition, self._convert_operand(a), self._convert_operand(b))
        return Symbol(Apply(Scalar.WHERE, supplied, self.type))

    def _set(self, other: Symbol) -> Symbol:
        self.value = other.value
        self.writes += 1
        return self

    def lerp_(self, end: Any, weight: Number) -> Symbol:
        """Interpolate from the nearer end, as PyTorch does: exact at weights 0 and 1."""
        gap = self._do(Scalar.SUB, end, self)
        is_near_start = Apply(Scalar.LT, (weight.wide, Constant(Type.F64, 0.5)), Type.BOOL)
        complement = Apply(Scalar.SUB, (Constant(Type.F64, 1.0), weight.wide), Type.F64)
        from_start = self.add(gap.mul(weight))
        from_end = self._do(Scalar.SUB, end, gap.mul(Symbol(narrow(complement, self.type))))
        return self._set(self._choose(is_near_start, from_start, from_end))

    def maximum(self, other: Any) -> Symbol:
        """Return the greater; `other` if equal (0 and -0); NaN if either is NaN."""
        greater = self._choose(self._test(Scalar.LE, self, other), other, self)
        return self._choose(self._test(Scalar.NE, other, other), other, greater)

    def clone(self) -> Symbol:
        return Symbol(self.value)

    def copy_(self, source: Any) -> Symbol:
        self.value = self._convert_operand(source)
        self.writes += 1
        return self


class Number(Symbol):
    """A number that may change from step to step. `wide` is its value before rounding."""

    __slots__ = ("wide",)

    def __init__(self, wide: Expression, type: Type) -> None:
        super().__init__(narrow(wide, type))
        self.wide = wide


def narrow(wide: Expression, type: Type) -> Expression:
    """Round a double to the element type."""
    return wide if type is Type.F64 else Apply(Scalar.CAST, (wide,), type)
