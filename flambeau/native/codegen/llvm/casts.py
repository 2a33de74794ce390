"""Casts between every two types, as C and NumPy make them on this processor."""

from __future__ import annotations

from llvmlite import ir

from ...loop_ir.ir import Type
from .builder import I16, I32, I64, REGISTER, Builder, constant, vector

HALVES = (Type.F16, Type.BF16)


def cast(b: Builder, value: ir.Value, source: Type, target: Type, lanes: int) -> ir.Value:
    """A value in another type. To BOOL: whether it is not 0 (NaN is not)."""
    if source is target:
        return value
    if source in HALVES:
        if target is Type.BOOL:
            return _is_nonzero_half(b, value, source, lanes)
        return cast(b, _widen(b, value, source, lanes), Type.F32, target, lanes)
    if target in HALVES:
        as_float32 = cast(b, value, source, Type.F32, lanes)
        if target is Type.F16:
            return b.fptrunc(as_float32, vector(REGISTER[target], lanes))
        return _round_to_bf16(b, as_float32, lanes)
    if target is Type.BOOL:
        zero = b.splat(constant(source, 0), lanes)
        if source.floating:
            return b.fcmp_unordered("!=", value, zero)
        return b.icmp_unsigned("!=", value, zero)
    if source.floating:
        return _from_float(b, value, source, target, lanes)
    return _from_integer(b, value, source, target, lanes)


def bitcast(b: Builder, value: ir.Value, source: Type, target: Type, lanes: int) -> ir.Value:
    """The same bits as another type of the same size."""
    kind = vector(REGISTER[target], lanes)
    if source is Type.BOOL:
        return b.zext(value, kind) if target is not Type.BOOL else value
    if target is Type.BOOL:
        return b.icmp_unsigned("!=", value, b.splat(constant(source, 0), lanes))
    return value if value.type == kind else b.bitcast(value, kind)


def _from_float(
    b: Builder, value: ir.Value, source: Type, target: Type, lanes: int
) -> ir.Value:
    kind = vector(REGISTER[target], lanes)
    if target.floating:
        return b.fpext(value, kind) if target is Type.F64 else b.fptrunc(value, kind)
    if target is Type.U64:
        # From 2 ** 63 on: less that, as a signed number, and its sign bit turned.
        limit = b.splat(constant(source, 2.0**63), lanes)
        low = b.fptosi(value, kind)
        high = b.fptosi(b.fsub(value, limit), kind)
        high = b.xor(high, b.splat(ir.Constant(I64, -(1 << 63)), lanes))
        return b.freeze(b.select(b.fcmp_ordered("<", value, limit), low, high))
    # Small types by way of i32, and u32 by way of i64, so that what does not fit wraps around.
    integer = I64 if target in (Type.I64, Type.U32) else I32
    integers = b.freeze(b.fptosi(value, vector(integer, lanes)))
    return integers if kind == vector(integer, lanes) else b.trunc(integers, kind)


def _from_integer(
    b: Builder, value: ir.Value, source: Type, target: Type, lanes: int
) -> ir.Value:
    kind = vector(REGISTER[target], lanes)
    if target.floating:
        return b.sitofp(value, kind) if source.signed else b.uitofp(value, kind)
    if source is Type.BOOL or target.size > source.size:
        return b.sext(value, kind) if source.signed else b.zext(value, kind)
    return value if target.size == source.size else b.trunc(value, kind)


def _is_nonzero_half(b: Builder, value: ir.Value, source: Type, lanes: int) -> ir.Value:
    bits = bitcast(b, value, source, Type.I16, lanes)
    number = b.and_(bits, b.splat(ir.Constant(I16, 0x7FFF), lanes))
    return b.icmp_unsigned("!=", number, b.splat(ir.Constant(I16, 0), lanes))


def _widen(b: Builder, value: ir.Value, source: Type, lanes: int) -> ir.Value:
    """A half-precision value as F32."""
    float32_type = vector(REGISTER[Type.F32], lanes)
    if source is Type.F16:
        return b.fpext(value, float32_type)
    bits = b.shl(b.zext(value, vector(I32, lanes)), b.splat(ir.Constant(I32, 16), lanes))
    return b.bitcast(bits, float32_type)


def _round_to_bf16(b: Builder, value: ir.Value, lanes: int) -> ir.Value:
    """An F32 rounded to BF16, halves to even; NaN stays NaN."""

    def number(value: int) -> ir.Value:
        return b.splat(ir.Constant(I32, value), lanes)

    bits = b.bitcast(value, vector(I32, lanes))
    high = b.lshr(bits, number(16))
    even = b.add(b.and_(high, number(1)), number(0x7FFF))
    rounded = b.lshr(b.add(bits, even), number(16))
    quiet = b.or_(high, number(0x40))
    nan = b.fcmp_unordered("uno", value, value)
    return b.trunc(b.select(nan, quiet, rounded), vector(I16, lanes))
