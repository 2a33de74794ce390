"""The register tile: rows x vectors of sums kept in registers while a loop runs over the depth.

Each step multiplies a broadcast scalar of `a` per row by a few contiguous vectors of `b`. Matrix
products and convolutions differ only in how their pointers advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.cache_sizes import LINE_BYTES
from ...target.cost_model import MULTIPLY_ADDS_IN_FLIGHT
from ..llvm.address import ceil_divide, constant, multiply, offset_bytes
from ..llvm.constants import zero
from ..llvm.loop import emit_loop
from ..llvm.types import Number, memory_type
from ..llvm.vectors import fma, load_vector, splat, widen


# (builder, x, y, sums): sums + x * y, for any element format
Multiply = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]
Sums = list[ir.Value]  # a tile's accumulators: vectors of row 0, then of row 1, ...


@dataclass(frozen=True)
class MicroTile:
    """The shape of a register tile, and the type in which it sums (F32, F64, integers)."""

    rows: int
    vectors: int
    lanes: int
    type: Type

    @property
    def columns(self) -> int:
        """How many columns the tile covers."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class DepthLoop:
    """A loop over the depth: its extent, and the bytes that `a` and `b` advance per iteration."""

    extent: Number
    a: Number
    b: Number


@dataclass(frozen=True)
class PrefetchPlan:
    """The memory ranges that a loop over the depth prefetches, one after another.

    There are at most `most`, each with `bytes` per step of the whole depth. `start(i)` is the
    first byte of the i-th; `ask(place)` prefetches the line of an address.
    """

    stretches: Number
    most: int
    bytes: int
    start: Callable[[ir.Value], ir.Value]
    ask: Callable[[ir.Value], None]


@dataclass(frozen=True)
class TileSource:
    """Where a tile reads: pointers to the first element, and the types in memory.

    `rows` is the distance in bytes from `a` to each row's first element. `mask` (lanes x i1)
    guards the last vector of `b`; None reads whole vectors. `multiply(builder, x, y, sums)`: for
    elements such as pairs of numbers, which are used in their memory format.
    """

    a: ir.Value
    rows: Sequence[Number]
    b: ir.Value
    a_type: Type
    b_type: Type
    mask: ir.Value | None = None
    multiply: Multiply | None = None


# --------------------------------------------------------------------------------- the loops


def zero_sums(tile: MicroTile) -> Sums:
    """Return accumulators set to zero."""
    vector = ir.VectorType(memory_type(tile.type), tile.lanes)
    return [zero(vector)] * (tile.rows * tile.vectors)


def emit_step(b: ir.IRBuilder, tile: MicroTile, source: TileSource, sums: Sums) -> Sums:
    """Emit one depth step: sums + (each row's scalar of a) * (the vectors of b)."""
    stride = tile.lanes * source.b_type.size
    multiply = source.multiply or fma
    inside = source.b_type if source.multiply else tile.type
    vectors = []
    for j in range(tile.vectors):
        mask = source.mask if j == tile.vectors - 1 else None
        read = load_vector(
            b, offset_bytes(b, source.b, j * stride), source.b_type, tile.lanes, mask
        )
        vectors.append(widen(b, read, source.b_type, inside))
    out = []
    for i, offset in enumerate(source.rows):
        pointer = offset_bytes(b, source.a, offset)
        align = 2 if source.multiply else source.a_type.size  # pairs are aligned like their halves
        scalar = b.load(pointer, typ=memory_type(source.a_type), align=align)
        widened = splat(b, widen(b, scalar, source.a_type, inside), tile.lanes)
        for j, vector in enumerate(vectors):
            out.append(multiply(b, widened, vector, sums[i * tile.vectors + j]))
    return out


def emit_accumulation(
    b: ir.IRBuilder,
    tile: MicroTile,
    source: TileSource,
    depth: Sequence[DepthLoop],
    sums: Sums | None = None,
    unroll: int = 1,
    ahead: PrefetchPlan | None = None,
) -> Sums:
    """Return the sums of a * b over the depth, outermost loop first, added to `sums` (or zero).

    `unroll`: steps per iteration of the innermost loop.
    """
    sums = zero_sums(tile) if sums is None else sums
    if not depth:
        return emit_step(b, tile, source, sums)
    if len(depth) == 1:
        return _emit_innermost_loop(b, tile, source, depth[0], sums, unroll, ahead)
    outer = depth[0]

    def body(_: ir.Value, carried: Sums) -> Sums:
        inner_source = _move_source(source, carried[0], carried[1])
        inner = emit_accumulation(b, tile, inner_source, depth[1:], carried[2:], unroll, ahead)
        return [offset_bytes(b, carried[0], outer.a), offset_bytes(b, carried[1], outer.b), *inner]

    return emit_loop(b, outer.extent, [source.a, source.b, *sums], body)[2:]


def _move_source(source: TileSource, a: ir.Value, b: ir.Value) -> TileSource:
    return replace(source, a=a, b=b)


def _emit_innermost_loop(
    b: ir.IRBuilder, tile: MicroTile, source: TileSource, axis: DepthLoop, sums: Sums, unroll: int,
    ahead: PrefetchPlan | None,
) -> Sums:
    """Emit the loop over one axis; small tiles keep several sets of sums to hide latency."""
    n = len(sums)
    sets = min(4, -(-MULTIPLY_ADDS_IN_FLIGHT // n))
    if isinstance(axis.extent, int):
        sets = max(1, min(sets, axis.extent))
    if sets > 1:
        unroll = sets
    carried = [source.a, source.b, *sums, *(zero_sums(tile) * (sets - 1))]

    def body(_: ir.Value, carried: Sums) -> Sums:
        a, vectors, sums_so_far = carried[0], carried[1], carried[2:]
        for u in range(unroll):
            s = u % sets * n
            step_source = _move_source(source, offset_bytes(b, a, multiply(b, axis.a, u)),
                                       offset_bytes(b, vectors, multiply(b, axis.b, u)))
            sums_so_far[s : s + n] = emit_step(b, tile, step_source, sums_so_far[s : s + n])
        ends = (
            offset_bytes(b, a, multiply(b, axis.a, unroll)),
            offset_bytes(b, vectors, multiply(b, axis.b, unroll)),
        )
        return [*ends, *sums_so_far]

    if unroll == 1:
        return _emit_iterations(b, axis.extent, 1, carried, body, ahead)[2:]
    if isinstance(axis.extent, int):
        rounds, rest = divmod(axis.extent, unroll)
    else:
        rounds, rest = b.sdiv(axis.extent, constant(unroll)), b.srem(axis.extent, constant(unroll))
    carried = _emit_iterations(b, rounds, unroll, carried, body, ahead)
    total = carried[2 : 2 + n]
    for s in range(1, sets):
        total = [_add(b, x, y) for x, y in zip(total, carried[2 + s * n :], strict=False)]
    if isinstance(rest, int) and rest == 0:
        return total

    def remaining_step(_: ir.Value, carried: Sums) -> Sums:
        sums_so_far = emit_step(b, tile, _move_source(source, carried[0], carried[1]), carried[2:])
        ends = offset_bytes(b, carried[0], axis.a), offset_bytes(b, carried[1], axis.b)
        return [*ends, *sums_so_far]

    return emit_loop(b, rest, [carried[0], carried[1], *total], remaining_step)[2:]


def _emit_iterations(
    b: ir.IRBuilder, rounds: Number, unroll: int, carried: Sums,
    body: Callable[[ir.Value, Sums], Sums], ahead: PrefetchPlan | None,
) -> Sums:
    """Emit a loop whose iterations each prefetch one or a few lines.

    A pointer walks one range at a time: computing each line's address would take issue slots from
    the multiply-adds. A last range with fewer iterations leaves some lines to the hardware.
    """
    if ahead is None:
        return emit_loop(b, rounds, carried, body)
    count, lines = ahead.stretches, -(-unroll * ahead.bytes * ahead.most // LINE_BYTES)
    further, per_stretch = multiply(b, count, unroll * ahead.bytes), ceil_divide(b, rounds, count)

    def prefetching_round(i: ir.Value, carried: Sums) -> Sums:
        for line in range(lines):
            ahead.ask(offset_bytes(b, carried[0], line * LINE_BYTES))
        return [offset_bytes(b, carried[0], further), *body(i, carried[1:])]

    def stretch(i: ir.Value, carried: Sums) -> Sums:
        remaining = b.sub(constant(rounds), constant(multiply(b, i, per_stretch)))
        is_last = b.icmp_signed("<", remaining, constant(per_stretch))
        round_count = b.select(is_last, remaining, constant(per_stretch))
        return emit_loop(b, round_count, [ahead.start(i), *carried], prefetching_round)[1:]

    if isinstance(count, int) and count == 1:
        return emit_loop(b, rounds, [ahead.start(constant(0)), *carried], prefetching_round)[1:]
    return emit_loop(b, count, carried, stretch)


def _add(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.add(x, y) if isinstance(x.type.element, ir.IntType) else b.fadd(x, y)
