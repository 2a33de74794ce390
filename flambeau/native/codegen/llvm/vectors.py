"""Vectors: broadcast, widening, fused multiply-add, masked loads and stores."""

from __future__ import annotations

from llvmlite import ir

from ...loop_ir.ir import Type
from .address import constant
from .constants import lane_indices, undefined
from .intrinsics import declare, suffix
from .masked_memory import masked_load, masked_store
from .types import F32, F64, I1, I32, Number, memory_type


def widen(b: ir.IRBuilder, value: ir.Value, stored: Type, type: Type) -> ir.Value:
    """Convert an element or vector from its type in memory to the type of the sums."""
    if stored is type:
        return value
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else None

    def shaped(element: ir.Type) -> ir.Type:
        return element if lanes is None else ir.VectorType(element, lanes)

    if stored is Type.BF16:
        widened = b.zext(value, shaped(I32))
        sixteen: ir.Value = ir.Constant(shaped(I32), 16 if lanes is None else [16] * lanes)
        value = b.bitcast(b.shl(widened, sixteen), shaped(F32))
        return value if type is Type.F32 else b.fpext(value, shaped(F64))
    if stored.floating:
        return b.fpext(value, shaped(memory_type(type)))
    if type.floating:
        convert = b.sitofp if stored.signed else b.uitofp
        return convert(value, shaped(memory_type(type)))
    if stored.size < type.size:
        return (b.sext if stored.signed else b.zext)(value, shaped(memory_type(type)))
    return value


def splat(b: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """Broadcast a value to a vector."""
    if lanes == 1:
        vector = ir.VectorType(scalar.type, 1)
        return b.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    empty = undefined(ir.VectorType(scalar.type, lanes))
    first = b.insert_element(empty, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, empty, lane_indices((0,) * lanes))


def fma(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z on vectors: rounded once for floats, wrapping for integers."""
    if isinstance(x.type.element, ir.IntType):
        return b.add(b.mul(x, y), z)
    name = f"llvm.fma.{suffix(x.type)}"
    return b.call(declare(b, name, x.type, [x.type] * 3), [x, y, z])


def load_vector(
    b: ir.IRBuilder, pointer: ir.Value, type: Type, lanes: int, mask: ir.Value | None = None
) -> ir.Value:
    """Load contiguous elements in their memory type; zero where the mask is false."""
    vector = ir.VectorType(memory_type(type), lanes)
    if mask is None:
        return b.load(pointer, typ=vector, align=type.size)
    return masked_load(b, pointer, vector, type.size, mask)


def store_vector(
    b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, size: int, mask: ir.Value | None = None
) -> None:
    """Write contiguous elements of `size` bytes, those where the mask is true."""
    if mask is None:
        b.store(value, pointer, align=size)
        return
    masked_store(b, value, pointer, size, mask)


def first_lanes(b: ir.IRBuilder, count: Number, lanes: int) -> ir.Value | None:
    """Return a mask of the first `count` lanes; None if known to be all lanes."""
    kind = ir.VectorType(I1, lanes)
    if isinstance(count, int):
        return None if count >= lanes else ir.Constant(kind, [i < count for i in range(lanes)])
    small = b.trunc(b.select(b.icmp_signed("<", count, constant(lanes)), count, constant(lanes)),
                    I32)
    steps = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return b.icmp_signed("<", steps, splat(b, small, lanes))
