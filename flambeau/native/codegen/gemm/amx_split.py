"""Split numbers into sums of bfloat16 terms, and pack panels of such terms for AMX.

Three terms represent a float32 number exactly. Of the nine term products of two such numbers six
matter: the others are below half a unit in the last place of the result. With two terms, three
products matter, and about 16 bits are correct. (Henry, Tang, Heinecke: Leveraging the bfloat16
Artificial Intelligence Datatype For Higher-Precision Computations, 2019.)

Packing detects non-finite values, and panels of numbers so small that AMX flushes their terms to
zero. Those are multiplied in float32 (amx_fallback.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.amx import DEPTH_PER_TILE, SIDE, TILE_BYTES
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.builder import VectorBuilder
from ..llvm.loop import declare_internal
from ..llvm.transpose import transpose_block
from ..llvm.types import F32, I1, I16, I32, I64, POINTER, Number
from ..llvm.vectors import first_lanes, load_vector, store_vector, widen
from .amx_tiles import count_tile_steps

_WIDE, _FLOATS, _SHORT = ir.VectorType(I32, SIDE), ir.VectorType(F32, SIDE), \
    ir.VectorType(I16, 2 * SIDE)
UPPER_HALF, _MAGNITUDE, _HALF_PLACE = -65536, 0x7FFFFFFF, 0x8000
_INFINITY, _QUIET = 0x7F800000, 0x00400000
_SMALL = 0x0D800000  # 2^-100: AMX treats terms of numbers far below it as 0


def count_bf16_terms(type: Type, precision: int) -> int:
    """Return how many bfloat16 terms represent a number; 0 for types that are not split.

    `precision`: significant terms of a float32. (Float16 numbers, of two terms each, would need
    all four products, and AMX would hardly beat multiply-adds.)
    """
    return {Type.F32: precision, Type.BF16: 1}.get(type, 0)


@dataclass(frozen=True)
class SplitOperand:
    """An operand to pack: `valid` of a panel's 32 rows (columns of b), `depth` steps of each.

    Strides are in bytes; one of them is an element's size. `turned`: pairs of depth steps are
    interleaved within a row of the depth, as for b; else within a row of the width, as for a.
    `checked`: whether to detect numbers that need the fallback.
    """

    pointer: ir.Value
    width_stride: Number
    depth_stride: Number
    stored: Type
    valid: Number
    depth: Number
    parts: int
    turned: bool
    checked: bool

    @property
    def step(self) -> int:
        """Bytes between depth steps in the panel."""
        return 2 * TILE_BYTES * self.parts


def broadcast_bits(value: int) -> ir.Value:
    """Return a vector of one 32-bit number."""
    return ir.Constant(_WIDE, [value] * SIDE)


def _split_terms(b: ir.IRBuilder, x: ir.Value, count: int) -> list[ir.Value]:
    """Split float32 numbers into terms, each in the upper half of its lane; lower halves may be
    dirty.

    The first of several is truncated so that nothing overflows. The others are rounded, so that
    remainders, and the errors of omitted products, have either sign.
    """
    bits = b.bitcast(x, _WIDE)
    if count == 1:
        quiet = b.or_(bits, broadcast_bits(_QUIET))
        return [b.select(b.fcmp_unordered("uno", x, x), quiet, _round_to_bf16(b, bits))]
    first = b.bitcast(b.and_(bits, broadcast_bits(UPPER_HALF)), _FLOATS)
    # Infinity minus itself would be NaN.
    differs = b.fcmp_unordered("!=", x, first)
    rest = b.select(differs, b.fsub(x, first), ir.Constant(_FLOATS, None))
    second = _round_to_bf16(b, b.bitcast(rest, _WIDE))
    if count == 2:
        return [bits, second]
    second = b.and_(second, broadcast_bits(UPPER_HALF))
    third = b.fsub(rest, b.bitcast(second, _FLOATS))
    return [bits, second, b.bitcast(third, _WIDE)]


def _round_to_bf16(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Round to the nearest numbers that the upper halves can hold."""
    return b.add(bits, broadcast_bits(_HALF_PLACE))


def _update_max_magnitude(b: ir.IRBuilder, x: ir.Value, largest: ir.Value) -> ir.Value:
    """Return the greatest magnitude so far, as bits."""
    bits = b.and_(b.bitcast(x, _WIDE), broadcast_bits(_MAGNITUDE))
    return b.select(b.icmp_unsigned(">", bits, largest), bits, largest)


def declare_packer(module: ir.Module, operand: SplitOperand) -> ir.Function:
    """Declare i64(source, stride, valid, depth, panel): packs a panel; returns whether it needs
    the fallback.
    """
    along = operand.depth_stride == operand.stored.size
    name = f"parts{operand.parts}_{operand.stored.value}_{'depth' if along else 'width'}" \
        f"_{int(operand.turned)}_{int(operand.checked)}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(I64, [POINTER, I64, I64, I64, POINTER])
    function = declare_internal(module, name, kind)
    source, stride, valid, depth, panel = function.args
    for pointer in (source, panel):
        pointer.add_attribute("noalias")
    b = VectorBuilder(function.append_basic_block("entry"))
    packer = (_DepthPacker if along else _WidthPacker)(b, operand, source, stride, valid)
    turn = along == operand.turned
    with b.carrying_loop(0, count_tile_steps(b, depth), [ir.Constant(_WIDE, None)]) as loop:
        step = loop.index
        into = offset_bytes(b, panel, multiply(b, step, operand.step))
        remaining = b.sub(depth, multiply(b, step, DEPTH_PER_TILE))
        loop.values = [packer.pack(step, remaining, into, loop.values[0])]
        if turn:
            with b.counted_loop(0, 2 * operand.parts) as i:
                _transpose_tile(b, into, i)
    [largest] = loop.values
    b.ret(_needs_fallback(b, largest) if operand.checked else constant(0))
    return function


def _transpose_tile(b: ir.IRBuilder, tiles: ir.Value, i: ir.Value) -> None:
    """Transpose a tile of pairs in place."""
    module, name = b.module, "turned_tile"
    function = module.globals.get(name)
    if function is None:
        function = declare_internal(module, name, ir.FunctionType(ir.VoidType(), [POINTER]))
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        tile = function.args[0]
        rows = [
            load_vector(inner, offset_bytes(inner, tile, r * 64), Type.I32, SIDE)
            for r in range(SIDE)
        ]
        for r, row in enumerate(transpose_block(inner, rows)):
            store_vector(inner, row, offset_bytes(inner, tile, r * 64), 4)
        inner.ret_void()
    b.call(function, [offset_bytes(b, tiles, multiply(b, i, TILE_BYTES))])


def _needs_fallback(b: ir.IRBuilder, largest: ir.Value) -> ir.Value:
    """Return 1 if the greatest magnitude is not finite, or small but nonzero."""
    name = "llvm.vector.reduce.umax.v16i32"
    function = b.module.globals.get(name) or ir.Function(
        b.module, ir.FunctionType(I32, [_WIDE]), name)
    classified = b.call(function, [largest])
    has_any = b.icmp_unsigned("!=", classified, ir.Constant(I32, 0))
    smallest = ir.Constant(I32, _SMALL)
    beyond = b.icmp_unsigned(
        ">=", b.sub(classified, smallest), ir.Constant(I32, _INFINITY - _SMALL))
    return b.zext(b.and_(has_any, beyond), I64)


@dataclass(frozen=True)
class _Packer:
    """Packs depth steps of a panel. `source`: its first number; `stride`: from row to row for rows
    along the depth, else from depth to depth; `valid`: how many rows it has."""

    b: VectorBuilder
    operand: SplitOperand
    source: ir.Value
    stride: ir.Value
    valid: ir.Value

    def split(self, pointer: ir.Value, mask: ir.Value, largest: ir.Value
              ) -> tuple[list[ir.Value], ir.Value]:
        """Load 16 numbers; return their terms and the greatest magnitude so far."""
        b, stored = self.b, self.operand.stored
        x = widen(b, load_vector(b, pointer, stored, SIDE, mask), stored, Type.F32)
        if self.operand.checked:
            largest = _update_max_magnitude(b, x, largest)
        return _split_terms(b, x, self.operand.parts), largest


class _DepthPacker(_Packer):
    """Packs rows that are contiguous along the depth."""

    def pack(self, s: ir.Value, remaining: ir.Value, into: ir.Value, largest: ir.Value
             ) -> ir.Value:
        """Pack depth step `s` of all rows; return the greatest magnitude so far."""
        b, size = self.b, self.operand.stored.size
        masks = [first_lanes(b, add(b, remaining, -first), SIDE) for first in (0, SIDE)]
        chunk = offset_bytes(b, self.source, multiply(b, s, DEPTH_PER_TILE * size))
        odd_lanes = ir.Constant(ir.VectorType(I32, 2 * SIDE), list(range(1, 4 * SIDE, 2)))

        with b.carrying_loop(0, self.valid, [largest]) as loop:
            row, [greatest], split = loop.index, loop.values, []
            pointer = offset_bytes(b, chunk, b.mul(row, self.stride))
            for first, mask in enumerate(masks):
                here = offset_bytes(b, pointer, first * SIDE * size)
                terms, greatest = self.split(here, mask, greatest)
                split.append(terms)
            for part, (low, high) in enumerate(zip(*split, strict=True)):
                both = b.shuffle_vector(b.bitcast(low, _SHORT), b.bitcast(high, _SHORT), odd_lanes)
                target = offset_bytes(b, into, multiply(b, row, 64))
                store_vector(b, both, offset_bytes(b, target, part * 2 * TILE_BYTES), 2)
            loop.values = [greatest]
        self._clear_other_rows(into)
        return loop.values[0]

    def _clear_other_rows(self, into: ir.Value) -> None:
        """Fill the panel's rows after the valid ones with zeros."""
        b = self.b
        with b.counted_loop(0, b.sub(constant(2 * SIDE), self.valid)) as i:
            target = offset_bytes(b, into, multiply(b, b.add(self.valid, i), 64))
            for part in range(self.operand.parts):
                store_vector(b, ir.Constant(_WIDE, None),
                             offset_bytes(b, target, part * 2 * TILE_BYTES), 4)


class _WidthPacker(_Packer):
    """Packs two rows at a time, each contiguous along the width."""

    def pack(self, s: ir.Value, remaining: ir.Value, into: ir.Value, largest: ir.Value
             ) -> ir.Value:
        """Pack depth step `s` of all rows; return the greatest magnitude so far."""
        b, size = self.b, self.operand.stored.size
        masks = [first_lanes(b, add(b, self.valid, -first), SIDE) for first in (0, SIDE)]
        sixteen = broadcast_bits(16)
        odd_lanes = ir.Constant(ir.VectorType(I1, 2 * SIDE), [0, 1] * SIDE)
        none = ir.Constant(ir.VectorType(I1, SIDE), None)

        with b.carrying_loop(0, SIDE, [largest]) as loop:
            i, [greatest] = loop.index, loop.values
            first = add(b, multiply(b, s, DEPTH_PER_TILE), multiply(b, i, 2))
            for tile in (0, 1):
                split = []
                for half in (0, 1):
                    is_inside = b.icmp_signed(
                        "<", constant(add(b, multiply(b, i, 2), half)), remaining)
                    mask = b.select(is_inside, masks[tile], none)
                    here = offset_bytes(
                        b, self.source, b.mul(constant(add(b, first, half)), self.stride))
                    here = offset_bytes(b, here, tile * SIDE * size)
                    terms, greatest = self.split(here, mask, greatest)
                    split.append(terms)
                for part, (even, uneven) in enumerate(zip(*split, strict=True)):
                    low = b.bitcast(b.lshr(even, sixteen), _SHORT)
                    both = b.select(odd_lanes, b.bitcast(uneven, _SHORT), low)
                    target = offset_bytes(b, into, multiply(b, i, 64))
                    place = part * 2 * TILE_BYTES + tile * TILE_BYTES
                    store_vector(b, both, offset_bytes(b, target, place), 2)
            loop.values = [greatest]
        return loop.values[0]
