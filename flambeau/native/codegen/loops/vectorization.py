"""What is settled before a kernel is emitted: how many lanes each loop over lanes takes at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...loop_ir.ir import (
    Accumulator, Apply, Begin, Buffer, Contract, Expression, Extent, Fold, If, Index, Kernel, Kind,
    Load, Loop, Position, Scalar, Size, Statement, Store, Type, Update, While, expressions,
    operands, statements, within,
)
from ...target.machine import Target

# Operations that take a series of instructions: one vector at a time keeps enough units busy.
CHEAP = frozenset((
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.FMA, Scalar.NEG, Scalar.ABS, Scalar.MAXIMUM,
    Scalar.MINIMUM, Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE, Scalar.AND,
    Scalar.OR, Scalar.XOR, Scalar.NOT, Scalar.SHL, Scalar.SHR, Scalar.WHERE, Scalar.CAST,
    Scalar.BITCAST, Scalar.COPYSIGN, Scalar.DIV, Scalar.SQRT, Scalar.FLOOR, Scalar.CEIL,
    Scalar.TRUNC, Scalar.ROUND,
))  # fmt: skip
LONG = 1024  # rounds of loops from which on a sum in F32 is made in blocks
ALL_LANES = 128  # the most lanes at once
# The most costly operations of which two vectors are at work at once; a vector of AVX2 is half an
# AVX-512's work, and what follows one after another in it takes as long.
PAIRED = {32: 4, 16: 6}  # by registers


@dataclass
class Plan:
    """`widths`: lanes of each loop that runs in lanes. `folding`: those that update an accumulator
    begun outside. `types`: what an accumulator compares or sums. `long`: sums in F32 of so many
    rounds that errors would show. `ascending`: those of ARGMAX and ARGMIN that see positions in
    their order, so that values alone decide.
    """

    widths: dict[Loop, int] = field(default_factory=dict)
    folding: dict[Accumulator, set[int]] = field(default_factory=dict)
    types: dict[Accumulator, Type] = field(default_factory=dict)
    long: set[Accumulator] = field(default_factory=set)
    ascending: set[Accumulator] = field(default_factory=set)


def plan(kernel: Kernel, target: Target) -> Plan:
    """The plan of a kernel."""
    made = Plan()
    extend(made, kernel.body, target)
    return made


def extend(made: Plan, body: Sequence[Statement], target: Target) -> None:
    """Plans more statements."""
    for loop in lane_loops(body):
        made.widths[loop] = width(loop, target)
    for statement in statements(body):
        if isinstance(statement, Update):
            one = statement.accumulator
            arg = one.fold in (Fold.ARGMAX, Fold.ARGMIN)
            made.types[one] = statement.value.type if arg else one.type
        elif isinstance(statement, Loop):
            for one in folded(statement):
                if statement in made.widths:
                    made.folding.setdefault(one, set()).add(made.widths[statement])
                if one.fold is Fold.SUM and one.type is Type.F32 and one not in made.long:
                    count = rounds(statement, made, one)
                    # What a round reads of a running sum must be all of it.
                    if (count is None or count > LONG) and not _reads(statement, one):
                        made.long.add(one)
    made.ascending.update(ascending(body))


def _reads(loop: Loop, one: Accumulator) -> bool:
    """Whether a loop's rounds read an accumulator."""
    return one in nodes(list(statements(loop.body)))


def lane_loops(body: Sequence[Statement]) -> Iterator[Loop]:
    """The loops that run in lanes: LANES, and PARALLEL ones that are best run so."""
    for statement in body:
        if isinstance(statement, While | If):
            yield from lane_loops(statement.body)
        if isinstance(statement, Contract) or not isinstance(statement, Loop):
            continue
        shared = statement.kind is Kind.PARALLEL
        if statement.kind is Kind.LANES or (shared and suits_lanes(statement)):
            yield statement
        else:
            yield from lane_loops(statement.body)


def suits_lanes(loop: Loop) -> bool:
    """Whether a PARALLEL loop without lanes inside mostly moves through memory step by step."""
    inside = list(statements(loop.body))
    if any(isinstance(s, Contract | While | If)
           or (isinstance(s, Loop) and s.kind is not Kind.SERIAL) for s in inside):  # fmt: skip
        return False
    if any(isinstance(s, Store) and s.buffer.local is not None for s in inside):
        return False
    # With add or indirect stores rounds may not be as independent as lanes must be.
    if any(isinstance(s, Store) and (s.indirect or s.at.stride(loop.index) == 0) for s in inside):
        return False
    places = [one for one in touched(inside) if one.at.stride(loop.index) != 0]
    steps = sum(one.at.stride(loop.index) == 1 and not one.indirect for one in places)
    return 2 * steps > len(places)


def nodes(inside: Sequence[Statement]) -> list[Expression]:
    """Every expression in statements, once."""
    found: dict[Expression, None] = {}
    stack = [one for statement in inside for one in expressions(statement)]
    while stack:
        one = stack.pop()
        if one not in found:
            found[one] = None
            stack.extend(operands(one))
    return list(found)


def touched(inside: Sequence[Statement]) -> list[Load | Store]:
    """The loads and stores in statements."""
    loads: list[Load | Store] = [one for one in nodes(inside) if isinstance(one, Load)]
    return loads + [s for s in inside if isinstance(s, Store)]


def folded(loop: Loop) -> list[Accumulator]:
    """The accumulators that a loop updates and that are begun outside of it."""
    inside = list(statements(loop.body))
    begun = {s.accumulator for s in inside if isinstance(s, Begin)}
    updated = {s.accumulator: None for s in inside if isinstance(s, Update)}
    return [one for one in updated if one not in begun]


def changed(loop: Loop) -> list[Buffer | Accumulator]:
    """What a loop writes: buffers and accumulators."""
    return written(loop.body)


def written(body: Sequence[Statement]) -> list[Buffer | Accumulator]:
    """What statements write: buffers and accumulators."""
    found: dict[Buffer | Accumulator, None] = {}
    for statement in statements(body):
        if isinstance(statement, Store):
            found[statement.buffer] = None
        elif isinstance(statement, Begin | Update):
            found[statement.accumulator] = None
        elif isinstance(statement, Contract):
            found[statement.sum] = None
    return list(found)


def width(loop: Loop, target: Target) -> int:
    """How many lanes a loop takes at once: vectors of its commonest size, some of them."""
    inside = list(statements(loop.body))
    every, places = nodes(inside), touched(inside)
    size = element_size(every, places)
    one = max(1, target.vector_bytes // size)
    lanes = min(one * vectors(loop, inside, every, places, target), ALL_LANES)
    if isinstance(loop.extent, int):
        if loop.extent <= 2 or (loop.extent < one and target.vector_bytes < 64):
            return 1
        while lanes > one and lanes >= 2 * loop.extent:
            lanes //= 2
        if loop.extent <= 4 * one and _simple(loop, every, places):
            while lanes < loop.extent:  # a short row in one go, without a loop
                lanes *= 2
    return lanes


def element_size(every: Sequence[Expression], places: Sequence[Load | Store]) -> int:
    """The size in bytes of most of what is computed; positions and conditions do not count."""
    sizes: Counter[int] = Counter()
    for one in every:
        if isinstance(one, Apply) and one.type is not Type.BOOL:
            sizes[one.type.size if one.type not in (Type.F16, Type.BF16) else 4] += 2
    for place in places:
        sizes[place.buffer.type.size] += 1
    if not sizes:
        return 4
    most = max(sizes.values())
    common = max(size for size, count in sizes.items() if count == most)
    # A few wide values among narrow ones, or the other way: half way, so that neither is too many
    # registers or too few lanes.
    widest = max(sizes)
    return common if widest <= 2 * common else widest // 2


def vectors(
    loop: Loop,
    inside: Sequence[Statement],
    every: Sequence[Expression],
    places: Sequence[Load | Store],
    target: Target,
) -> int:
    """How many vectors at once: several where additions or loads would be waited for."""
    if any(_gathered(place, loop.index) for place in places):
        return 1
    costly = _costly(every)
    sums = len({s.accumulator for s in inside if isinstance(s, Update)})
    streams = len(places)
    if costly:
        if costly <= 2 and streams <= 4 and sums <= 2:
            return 4
        return 2 if costly <= PAIRED[target.vector_registers] else 1
    if not sums:
        # Memory is the limit. A load waits for the stores before it whose addresses are the same
        # but for the page, as those of arrays that begin alike; so some loads come first.
        return 4 if streams <= 4 and _long(loop) else 1
    if any(isinstance(s, Update) and s.position is not None for s in inside):
        return 2
    return 4 if sums <= 2 and streams <= 4 else 2 if sums <= 4 else 1


def _long(loop: Loop) -> bool:
    if isinstance(loop.extent, int):
        return loop.extent >= LONG
    return loop.kind is Kind.PARALLEL


def _costly(every: Sequence[Expression]) -> int:
    """How many operations take a series of instructions."""
    return sum(isinstance(one, Apply) and one.operation not in CHEAP for one in every)


def _simple(loop: Loop, every: Sequence[Expression], places: Sequence[Load | Store]) -> bool:
    """Whether four vectors at once of everything fit into registers, and into little code."""
    if len(places) > 6 or len(every) > 30 or _costly(every) > 2:
        return False
    return not any(_gathered(place, loop.index) for place in places)


def _gathered(place: Load | Store, lane: Index) -> bool:
    """Whether lanes lie apart in memory, as far as can be seen."""
    return _strided(place.at.stride(lane)) or any(
        isinstance(one, Accumulator)
        or (isinstance(one, Load) and one.at.stride(lane) != 0)
        or (isinstance(one, Position) and one.value.stride(lane) != 0)
        for one in within([each for each, _ in place.indirect])
    )


def _strided(stride: Extent) -> bool:
    return not isinstance(stride, int) or stride not in (-1, 0, 1)


def rounds(loop: Loop, made: Plan, accumulator: Accumulator) -> int | None:
    """How often, one after another, a loop updates an accumulator; None if not known."""
    total = 0
    for statement in loop.body:
        if isinstance(statement, Update):
            total += statement.accumulator is accumulator
        elif isinstance(statement, Loop):
            inner = rounds(statement, made, accumulator)
            if inner is None:
                return None
            total += inner
    if total == 0:
        return 0
    most = loop.extent.most if isinstance(loop.extent, Size) else loop.extent
    return None if not isinstance(most, int) else total * -(-most // made.widths.get(loop, 1))


def ascending(body: Sequence[Statement]) -> set[Accumulator]:
    """The accumulators whose one update sees positions that grow from round to round."""
    depths: dict[Accumulator, int] = {}
    found: dict[Accumulator, bool] = {}

    def walk(some: Sequence[Statement], around: tuple[Loop, ...]) -> None:
        for one in some:
            if isinstance(one, Begin):
                depths[one.accumulator] = len(around)
            elif isinstance(one, Loop):
                walk(one.body, (*around, one))
            elif isinstance(one, Update) and one.position is not None:
                once = one.accumulator not in found
                grows = _grows(one.position, around[depths.get(one.accumulator, 0) :])
                found[one.accumulator] = once and grows

    walk(body, ())
    return {one for one, good in found.items() if good}


def _grows(position: Expression, loops: Sequence[Loop]) -> bool:
    """Whether a position grows with each round of loops inside one another."""
    if not isinstance(position, Position):
        return False
    reach: int | None = 0  # of the loops further inside; None: not known
    for loop in reversed(loops):
        stride = position.value.stride(loop.index)
        if not isinstance(stride, int) or reach is None or stride <= reach:
            return False
        reach = stride * (loop.extent - 1) + reach if isinstance(loop.extent, int) else None
    return True


def always(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a body that run at least once whenever it runs."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop) and isinstance(statement.extent, int) and statement.extent:
            yield from always(statement.body)


def indices(loop: Loop) -> set[Index]:
    """The indices of a loop and of those inside it."""
    found = {loop.index}
    for statement in statements(loop.body):
        if isinstance(statement, Loop):
            found.add(statement.index)
        elif isinstance(statement, Contract):
            found.update(axis.index for axis in (*statement.rows, *statement.depth))
            found.add(statement.column.index)
    return found
