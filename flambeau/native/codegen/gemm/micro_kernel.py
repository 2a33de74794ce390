"""The register tile: rows x vectors of sums kept in registers while a loop runs over the depth.

Each step multiplies one scalar of `a` for each row, broadcast, with a few contiguous vectors of
`b`. Matrix products and convolutions differ only in how their pointers move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import Type
from ..llvm.constants import i64, places, undefined, zero
from ..llvm.intrinsics import declared, suffix
from ..llvm.masked_loads import masked_load

I1, I16, I32, I64 = (ir.IntType(n) for n in (1, 16, 32, 64))
F32, F64, HALF, BYTE = ir.FloatType(), ir.DoubleType(), ir.HalfType(), ir.IntType(8)
POINTER = ir.PointerType()

Number: TypeAlias = int | ir.Value  # a run-time i64, or one known while emitting
Sums = list[ir.Value]  # a tile's accumulators: vectors of row 0, then of row 1, ...

# Sums that must be in flight for a fused multiply-add to start each cycle on two ports.
_IN_FLIGHT = 8
LINE = 64  # bytes of a cache's line


@dataclass(frozen=True)
class Tile:
    """The shape of a register tile, and the type in which it sums (F32, F64, integers)."""

    rows: int
    vectors: int
    lanes: int
    type: Type

    @property
    def columns(self) -> int:
        """How many columns it covers."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class Depth:
    """A loop over the depth: its extent, and by how many bytes `a` and `b` move each round."""

    extent: Number
    a: Number
    b: Number


@dataclass(frozen=True)
class Ahead:
    """What a loop over the depth asks for: so many stretches of memory, one after another.

    There are `most` of them at most, each of `bytes` for each step of the whole depth. `start(i)`
    is the i-th's first byte; `ask(place)` asks for the line of an address.
    """

    stretches: Number
    most: int
    bytes: int
    start: Callable[[ir.Value], ir.Value]
    ask: Callable[[ir.Value], None]


@dataclass(frozen=True)
class Source:
    """Where a tile reads: pointers to the first element, and the types in memory.

    `rows` is the distance in bytes from `a` to each row's first element. `mask` (lanes x i1)
    guards the last vector of `b`; None reads whole vectors. `multiply(builder, x, y, sums)`: for
    elements that are not numbers but, say, pairs of them, and are left as they lie in memory.
    """

    a: ir.Value
    rows: Sequence[Number]
    b: ir.Value
    a_type: Type
    b_type: Type
    mask: ir.Value | None = None
    multiply: Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value] | None = None


# ------------------------------------------------------------------------------- small pieces


def constant(value: Number) -> ir.Value:
    """An i64."""
    return i64(value) if isinstance(value, int) else value


def times(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x * y, folded where both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if isinstance(x, int):
        x, y = y, x
    if isinstance(y, int) and y in (0, 1):
        return x if y else 0
    return b.mul(constant(x), constant(y))


def plus(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x + y, folded where both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(x, int):
        x, y = y, x
    return x if isinstance(y, int) and y == 0 else b.add(constant(x), constant(y))


def parts(b: ir.IRBuilder, extent: Number, size: Number) -> Number:
    """How many parts of a size an extent has, the last of them perhaps shorter."""
    if isinstance(size, int) and size == 1:
        return extent
    if isinstance(extent, int) and isinstance(size, int):
        return -(-extent // size)
    return b.udiv(plus(b, plus(b, extent, size), -1), constant(size))


def moved(b: ir.IRBuilder, pointer: ir.Value, offset: Number) -> ir.Value:
    """A pointer, `offset` bytes on."""
    if isinstance(offset, int) and offset == 0:
        return pointer
    return b.gep(pointer, [constant(offset)], source_etype=BYTE)


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


def widened(b: ir.IRBuilder, value: ir.Value, stored: Type, type: Type) -> ir.Value:
    """An element or vector as it came from memory, in the type of the sums."""
    if stored is type:
        return value
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else None

    def shaped(element: ir.Type) -> ir.Type:
        return element if lanes is None else ir.VectorType(element, lanes)

    if stored is Type.BF16:
        wide = b.zext(value, shaped(I32))
        sixteen: ir.Value = ir.Constant(shaped(I32), 16 if lanes is None else [16] * lanes)
        value = b.bitcast(b.shl(wide, sixteen), shaped(F32))
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
    """A vector of one value."""
    if lanes == 1:
        vector = ir.VectorType(scalar.type, 1)
        return b.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
    empty = undefined(ir.VectorType(scalar.type, lanes))
    one = b.insert_element(empty, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(one, empty, places((0,) * lanes))


def internal(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """A new function of the module's own, whose code stands there once."""
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    for word in ("noinline", "nounwind"):
        function.attributes.add(word)
    return function


def fused(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z on vectors: rounded once for floats, wrapping for integers."""
    if isinstance(x.type.element, ir.IntType):
        return b.add(b.mul(x, y), z)
    name = f"llvm.fma.{suffix(x.type)}"
    return b.call(declared(b, name, x.type, [x.type] * 3), [x, y, z])


def load_vector(
    b: ir.IRBuilder, pointer: ir.Value, type: Type, lanes: int, mask: ir.Value | None = None
) -> ir.Value:
    """Contiguous elements as they are in memory; zero where the mask is false."""
    vector = ir.VectorType(memory_type(type), lanes)
    if mask is None:
        return b.load(pointer, typ=vector, align=type.size)
    return masked_load(b, pointer, vector, type.size, mask)


def store_vector(
    b: ir.IRBuilder, value: ir.Value, pointer: ir.Value, size: int, mask: ir.Value | None = None
) -> None:
    """Writes contiguous elements of `size` bytes, those where the mask is true."""
    if mask is None:
        b.store(value, pointer, align=size)
        return
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    function = declared(b, name, ir.VoidType(), [value.type, POINTER, I32, mask.type])
    b.call(function, [value, pointer, ir.Constant(I32, size), mask])


def first_lanes(b: ir.IRBuilder, count: Number, lanes: int) -> ir.Value | None:
    """A mask of the first `count` lanes; None where that is known to be all of them."""
    kind = ir.VectorType(I1, lanes)
    if isinstance(count, int):
        return None if count >= lanes else ir.Constant(kind, [i < count for i in range(lanes)])
    small = b.trunc(b.select(b.icmp_signed("<", count, constant(lanes)), count, constant(lanes)),
                    I32)  # fmt: skip
    steps = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return b.icmp_signed("<", steps, splat(b, small, lanes))


# --------------------------------------------------------------------------------- the loops


def loop(
    b: ir.IRBuilder,
    extent: Number,
    carried: Sums,
    body: Callable[[ir.Value, Sums], Sums],
) -> Sums:
    """Runs `body(round, carried) -> carried` for each round; returns what the last one gave."""
    if isinstance(extent, int) and extent <= 1:
        return body(constant(0), carried) if extent == 1 else carried
    before = b.block
    start, done = b.append_basic_block("loop"), b.append_basic_block("done")
    if isinstance(extent, int):
        b.branch(start)
    else:
        b.cbranch(b.icmp_signed(">", extent, constant(0)), start, done)
    b.position_at_end(start)
    count = b.phi(I64)
    held = [b.phi(v.type) for v in carried]
    count.add_incoming(constant(0), before)
    given = body(count, list(held))
    latch = b.block
    following = b.add(count, constant(1), flags=("nuw", "nsw"))
    count.add_incoming(following, latch)
    for phi, old, new in zip(held, carried, given, strict=True):
        phi.add_incoming(old, before)
        phi.add_incoming(new, latch)
    b.cbranch(b.icmp_signed("<", following, constant(extent)), start, done)
    b.position_at_end(done)
    if isinstance(extent, int):
        return given
    out = []
    for old, new in zip(carried, given, strict=True):
        phi = b.phi(new.type)
        phi.add_incoming(old, before)
        phi.add_incoming(new, latch)
        out.append(phi)
    return out


def zeros(tile: Tile) -> Sums:
    """Accumulators at zero."""
    vector = ir.VectorType(memory_type(tile.type), tile.lanes)
    return [zero(vector)] * (tile.rows * tile.vectors)


def step(b: ir.IRBuilder, tile: Tile, source: Source, sums: Sums) -> Sums:
    """One step of the depth: sums + (each row's scalar of a) * (the vectors of b)."""
    stride = tile.lanes * source.b_type.size
    multiply = source.multiply or fused
    inside = source.b_type if source.multiply else tile.type
    vectors = []
    for j in range(tile.vectors):
        mask = source.mask if j == tile.vectors - 1 else None
        read = load_vector(b, moved(b, source.b, j * stride), source.b_type, tile.lanes, mask)
        vectors.append(widened(b, read, source.b_type, inside))
    out = []
    for i, offset in enumerate(source.rows):
        pointer = moved(b, source.a, offset)
        align = 2 if source.multiply else source.a_type.size  # pairs lie where their halves may
        scalar = b.load(pointer, typ=memory_type(source.a_type), align=align)
        wide = splat(b, widened(b, scalar, source.a_type, inside), tile.lanes)
        for j, vector in enumerate(vectors):
            out.append(multiply(b, wide, vector, sums[i * tile.vectors + j]))
    return out


def accumulate(
    b: ir.IRBuilder,
    tile: Tile,
    source: Source,
    depth: Sequence[Depth],
    sums: Sums | None = None,
    unroll: int = 1,
    ahead: Ahead | None = None,
) -> Sums:
    """The sums of a * b over the depth, outermost loop first, added to `sums` (or to zero).

    `unroll`: steps in a round of the innermost loop.
    """
    sums = zeros(tile) if sums is None else sums
    if not depth:
        return step(b, tile, source, sums)
    if len(depth) == 1:
        return _innermost(b, tile, source, depth[0], sums, unroll, ahead)
    outer = depth[0]

    def body(_: ir.Value, held: Sums) -> Sums:
        at = _placed(source, held[0], held[1])
        inner = accumulate(b, tile, at, depth[1:], held[2:], unroll, ahead)
        return [moved(b, held[0], outer.a), moved(b, held[1], outer.b), *inner]

    return loop(b, outer.extent, [source.a, source.b, *sums], body)[2:]


def _placed(source: Source, a: ir.Value, b: ir.Value) -> Source:
    return replace(source, a=a, b=b)


def _innermost(
    b: ir.IRBuilder, tile: Tile, source: Source, axis: Depth, sums: Sums, unroll: int,
    ahead: Ahead | None,
) -> Sums:
    """The loop over one axis; small tiles keep several sets of sums to hide the latency."""
    n = len(sums)
    sets = min(4, -(-_IN_FLIGHT // n))
    if isinstance(axis.extent, int):
        sets = max(1, min(sets, axis.extent))
    if sets > 1:
        unroll = sets
    held = [source.a, source.b, *sums, *(zeros(tile) * (sets - 1))]

    def body(_: ir.Value, held: Sums) -> Sums:
        a, vectors, kept = held[0], held[1], held[2:]
        for u in range(unroll):
            s = u % sets * n
            at = _placed(source, moved(b, a, times(b, axis.a, u)),
                         moved(b, vectors, times(b, axis.b, u)))  # fmt: skip
            kept[s : s + n] = step(b, tile, at, kept[s : s + n])
        ends = moved(b, a, times(b, axis.a, unroll)), moved(b, vectors, times(b, axis.b, unroll))
        return [*ends, *kept]

    if unroll == 1:
        return _rounds(b, axis.extent, 1, held, body, ahead)[2:]
    if isinstance(axis.extent, int):
        rounds, rest = divmod(axis.extent, unroll)
    else:
        rounds, rest = b.sdiv(axis.extent, constant(unroll)), b.srem(axis.extent, constant(unroll))
    held = _rounds(b, rounds, unroll, held, body, ahead)
    total = held[2 : 2 + n]
    for s in range(1, sets):
        total = [_added(b, x, y) for x, y in zip(total, held[2 + s * n :], strict=False)]
    if isinstance(rest, int) and rest == 0:
        return total

    def one(_: ir.Value, held: Sums) -> Sums:
        kept = step(b, tile, _placed(source, held[0], held[1]), held[2:])
        return [moved(b, held[0], axis.a), moved(b, held[1], axis.b), *kept]

    return loop(b, rest, [held[0], held[1], *total], one)[2:]


def _rounds(
    b: ir.IRBuilder, rounds: Number, unroll: int, held: Sums,
    body: Callable[[ir.Value, Sums], Sums], ahead: Ahead | None,
) -> Sums:  # fmt: skip
    """The loop's rounds, each of which asks for a line or a few of what lies ahead.

    A pointer runs through a stretch at a time: to reckon each line's place in a round would take
    multiply-adds' turns on the ports. A last stretch with fewer rounds leaves its end out.
    """
    if ahead is None:
        return loop(b, rounds, held, body)
    count, lines = ahead.stretches, -(-unroll * ahead.bytes * ahead.most // LINE)
    further, most = times(b, count, unroll * ahead.bytes), parts(b, rounds, count)

    def one(i: ir.Value, held: Sums) -> Sums:
        for line in range(lines):
            ahead.ask(moved(b, held[0], line * LINE))
        return [moved(b, held[0], further), *body(i, held[1:])]

    def stretch(i: ir.Value, held: Sums) -> Sums:
        left = b.sub(constant(rounds), constant(times(b, i, most)))
        many = b.select(b.icmp_signed("<", left, constant(most)), left, constant(most))
        return loop(b, many, [ahead.start(i), *held], one)[1:]

    if isinstance(count, int) and count == 1:
        return loop(b, rounds, [ahead.start(constant(0)), *held], one)[1:]
    return loop(b, count, held, stretch)


def _added(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.add(x, y) if isinstance(x.type.element, ir.IntType) else b.fadd(x, y)
