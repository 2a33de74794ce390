"""The multiplier for panels that AMX would get wrong: number by number, in float32.

AMX flushes tiny terms to zero, and terms of infinities multiply to NaN; packing detects both
(amx_split.py). Panels have the layout that packing writes.
"""

from __future__ import annotations


from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.amx import SIDE, TILE_BYTES
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.builder import VectorBuilder
from ..llvm.loop import declare_internal
from ..llvm.types import F32, I16, I32, I64, POINTER
from ..llvm.vectors import fma, load_vector, splat, store_vector
from .amx_split import UPPER_HALF, broadcast_bits

_FLOATS = ir.VectorType(F32, SIDE)


def declare_fallback(module: ir.Module, parts: tuple[int, int]) -> ir.Function:
    """Declare void(a, b, steps, sums, resume, rows, columns): the work of `declare_multiplier` in
    float32.

    `rows` counts single rows, `columns` counts tiles.
    """
    name = f"careful_{parts[0]}{parts[1]}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, POINTER, *[I64] * 3])
    function = declare_internal(module, name, kind)
    a, other, steps, sums, resume, rows, columns = function.args
    b = VectorBuilder(function.append_basic_block("entry"))
    line = b.mul(columns, constant(64))
    vectors = b.mul(rows, columns)
    with b.if_then(b.icmp_signed("==", resume, constant(0))):
        _clear_sums(b, sums, vectors)

    with b.counted_loop(0, steps) as s, b.counted_loop(0, SIDE) as pair, \
            b.counted_loop(0, 2) as half, b.counted_loop(0, columns) as tile:
        rhs = offset_bytes(
            b, other, add(b, multiply(b, s, 2 * TILE_BYTES * parts[1]), multiply(b, pair, 64))
        )
        rhs = offset_bytes(b, rhs, multiply(b, tile, TILE_BYTES))
        y = _add_terms(
            b,
            [
                _load_half(b, offset_bytes(b, rhs, p * 2 * TILE_BYTES), half)
                for p in range(parts[1])
            ],
        )
        lhs = offset_bytes(b, a, multiply(b, s, 2 * TILE_BYTES * parts[0]))
        lhs = offset_bytes(b, lhs, add(b, multiply(b, pair, 4), multiply(b, half, 2)))
        into = offset_bytes(b, sums, multiply(b, tile, 64))

        with b.counted_loop(0, rows) as row:
            x = splat(b, _join_terms(b, offset_bytes(b, lhs, multiply(b, row, 64)), parts[0]), SIDE)
            place = offset_bytes(b, into, b.mul(row, line))
            store_vector(b, fma(b, x, y, load_vector(b, place, Type.F32, SIDE)), place, 4)
    b.ret_void()
    return function


def _clear_sums(b: VectorBuilder, sums: ir.Value, vectors: ir.Value) -> None:
    """Zero `vectors` vectors of sums."""
    with b.counted_loop(0, vectors) as i:
        store_vector(b, ir.Constant(_FLOATS, None), offset_bytes(b, sums, multiply(b, i, 64)), 4)


def _join_terms(b: ir.IRBuilder, place: ir.Value, parts: int) -> ir.Value:
    """Return the number whose terms lie in consecutive tiles."""
    terms = []
    for part in range(parts):
        bits = b.load(offset_bytes(b, place, part * 2 * TILE_BYTES), typ=I16, align=2)
        terms.append(b.bitcast(b.shl(b.zext(bits, I32), ir.Constant(I32, 16)), F32))
    return _add_terms(b, terms)


def _load_half(b: ir.IRBuilder, place: ir.Value, half: ir.Value) -> ir.Value:
    """Return one of the two numbers in each lane of a row of pairs."""
    bits = load_vector(b, place, Type.I32, SIDE)
    low = b.shl(bits, broadcast_bits(16))
    high = b.and_(bits, broadcast_bits(UPPER_HALF))
    return b.bitcast(b.select(b.icmp_signed("==", half, constant(0)), low, high), _FLOATS)


def _add_terms(b: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    """Add terms, smallest first, which is exact."""
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = b.fadd(total, part)
    return total
