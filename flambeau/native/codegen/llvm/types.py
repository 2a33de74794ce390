"""LLVM types, and the types that the loop IR's types have in memory and in sums."""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import Type

I1, I16, I32, I64 = (ir.IntType(n) for n in (1, 16, 32, 64))
F32, F64, HALF, BYTE = ir.FloatType(), ir.DoubleType(), ir.HalfType(), ir.IntType(8)
POINTER = ir.PointerType()
Number: TypeAlias = int | ir.Value  # a run-time i64, or one known while emitting


def memory_type(type: Type) -> ir.Type:
    """How LLVM loads and stores an element; bfloat16 travels as 16 bits."""
    if type is Type.F32:
        return F32
    if type is Type.F64:
        return F64
    if type is Type.F16:
        return HALF
    return ir.IntType(type.size * 8)


def sum_type(type: Type) -> Type:
    """The type in which products of elements are summed."""
    return Type.F32 if type in (Type.F16, Type.BF16) else type
