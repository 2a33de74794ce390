"""Pairs of bfloat16 numbers: two depth steps in a 32-bit lane, the first in the lower half.

One AVX512_BF16 instruction multiplies the pairs of two vectors and adds both products to float32
sums. It treats numbers and sums below 1e-38 as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ...loop_ir.ir import Type
from ..llvm.address import ceil_divide, constant
from ..llvm.intrinsics import declare
from ..llvm.types import I1, I16, I32, Number

_DOT = "llvm.x86.avx512bf16.dpbf16ps.512"


class _BFloatType(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat type, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash(_BFloatType)


def dot_accumulate(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """Return z plus the products of both halves of the lanes of x and y."""
    return b.call(declare(b, _DOT, z.type, [z.type, x.type, y.type]), [z, x, y])


def dot_accumulate_first(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """Return z plus the products of the first halves only, whatever x's second halves hold."""
    low = ir.Constant(x.type, [0xFFFF] * x.type.count)
    return dot_accumulate(b, b.and_(x, low), y, z)


def count_pair_steps(b: ir.IRBuilder, depth: Number, pairs: bool) -> Number:
    """Return how many pairs a depth makes; an odd depth ends with a zero half."""
    return ceil_divide(b, depth, 2) if pairs else depth


def split_depth(b: ir.IRBuilder, depth: Number) -> tuple[Number, bool | ir.Value]:
    """Return how many whole pairs a depth makes, and whether one step is left."""
    if isinstance(depth, int):
        return depth // 2, depth % 2 == 1
    return b.lshr(depth, constant(1)), b.trunc(depth, I1)


def emit_if(b: ir.IRBuilder, holds: bool | ir.Value, body: Callable[[], object]) -> None:
    """Emit body() if a condition holds, which may be known at compile time."""
    if isinstance(holds, bool):
        if holds:
            body()
        return
    with b.if_then(holds):
        body()


def pack_pair(b: ir.IRBuilder, steps: Sequence[ir.Value], stored: Type) -> ir.Value:
    """Pack one or two depth steps, elements or vectors as loaded from memory."""
    halves = [
        b.zext(bits, _match_vector_type(bits, I32)) for bits in (
            _convert_to_bf16_bits(b, x, stored) for x in steps
        )
    ]
    if len(halves) == 1:
        return halves[0]
    kind = halves[1].type
    sixteen = [16] * kind.count if isinstance(kind, ir.VectorType) else 16
    return b.or_(halves[0], b.shl(halves[1], ir.Constant(kind, sixteen)))


def pack_consecutive(b: ir.IRBuilder, numbers: ir.Value, stored: Type) -> ir.Value:
    """Pack a vector of numbers that are consecutive along the depth."""
    bits = _convert_to_bf16_bits(b, numbers, stored)
    return b.bitcast(bits, ir.VectorType(I32, bits.type.count // 2))


def _convert_to_bf16_bits(b: ir.IRBuilder, x: ir.Value, stored: Type) -> ir.Value:
    """Return bfloat16 numbers as integers; float32 numbers are rounded."""
    if stored is Type.BF16:
        return x
    if isinstance(x.type, ir.VectorType) and x.type.count == 8:
        # LLVM 20 aborts ("Unexpected illegal type!") on this conversion of eight masked lanes.
        halves = b.bitcast(b.fptrunc(_resize(b, x, 16), ir.VectorType(_BFloatType(), 16)),
                           ir.VectorType(I16, 16))
        return _resize(b, halves, 8)
    return b.bitcast(b.fptrunc(x, _match_vector_type(x, _BFloatType())), _match_vector_type(x, I16))


def _resize(b: ir.IRBuilder, x: ir.Value, lanes: int) -> ir.Value:
    """Return the first `lanes` of a vector; further ones are undefined."""
    undefined = ir.Constant(x.type, ir.Undefined)
    order = [min(i, x.type.count) for i in range(lanes)]
    return b.shuffle_vector(x, undefined, ir.Constant(ir.VectorType(I32, lanes), order))


def _match_vector_type(x: ir.Value, element: ir.Type) -> ir.Type:
    return ir.VectorType(element, x.type.count) if isinstance(x.type, ir.VectorType) else element
