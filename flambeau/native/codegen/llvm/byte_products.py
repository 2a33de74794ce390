"""Products of bytes: four unsigned ones of x and four signed ones of y in a 32-bit lane, summed.

VPDPBUSD is one instruction. AVX2 and AVX-512 without it multiply and add pairs in 16 bits, which
saturates: exact while no byte of x is above 127. Larger bytes are split into their low seven bits
and the eighth, at twice the cost. Elsewhere LLVM compiles shifts and products.
"""

from __future__ import annotations

from llvmlite import ir

from .intrinsics import declare
from .types import BYTE, I16, I32

# By bytes of a vector: products of bytes summed in pairs, and of 16-bit numbers.
_PAIRS = {16: "llvm.x86.ssse3.pmadd.ub.sw.128", 32: "llvm.x86.avx2.pmadd.ub.sw",
          64: "llvm.x86.avx512.pmaddubs.w.512"}
_WIDE_PAIRS = {16: "llvm.x86.sse2.pmadd.wd", 32: "llvm.x86.avx2.pmadd.wd",
               64: "llvm.x86.avx512.pmaddw.d.512"}
_QUADS = {32: "llvm.x86.avx512.vpdpbusd.256", 64: "llvm.x86.avx512.vpdpbusd.512"}


def dot_quads(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """z + x . y in one instruction, which the target must have."""
    name = _QUADS[4 * z.type.count]
    return b.call(declare(b, name, z.type, [z.type] * 3), [z, x, y])


def dot_low_bytes_by_pairs(
    b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value
) -> ir.Value:
    """z + x . y, exact if no byte of x is above 127."""
    return b.add(z, _sum_pairs(b, x, y, 1))


def dot_bytes_by_pairs(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """z + x . y for all bytes."""
    count = x.type.count
    low = b.and_(x, ir.Constant(x.type, [0x7F7F7F7F] * count))
    high = b.and_(b.lshr(x, ir.Constant(x.type, [7] * count)),
                  ir.Constant(x.type, [0x01010101] * count))
    return b.add(b.add(z, _sum_pairs(b, low, y, 1)), _sum_pairs(b, high, y, 128))


def _sum_pairs(b: ir.IRBuilder, x: ir.Value, y: ir.Value, factor: int) -> ir.Value:
    """factor * (x . y): pairs in 16 bits, then pairs of these in 32."""
    lanes = x.type.count
    size = 4 * lanes
    eights, sixteens = ir.VectorType(BYTE, size), ir.VectorType(I16, size // 2)
    multiply = declare(b, _PAIRS[size], sixteens, [eights, eights])
    pairs = b.call(multiply, [b.bitcast(x, eights), b.bitcast(y, eights)])
    add = declare(b, _WIDE_PAIRS[size], x.type, [sixteens, sixteens])
    return b.call(add, [pairs, ir.Constant(sixteens, [factor] * (size // 2))])


def dot_bytes(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """z + x . y on any processor, of vectors or scalars."""
    for i in range(4):
        left = b.and_(b.lshr(x, _create_integer(x.type, 8 * i)), _create_integer(x.type, 255))
        right = b.ashr(b.shl(y, _create_integer(x.type, 24 - 8 * i)), _create_integer(x.type, 24))
        z = b.add(z, b.mul(left, right))
    return z


def _create_integer(kind: ir.Type, value: int) -> ir.Value:
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [value] * kind.count)
    return ir.Constant(I32, value)
