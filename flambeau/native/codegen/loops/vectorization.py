"""Vectorization: how many lanes each vectorized loop computes at once, chosen before emission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...loop_ir.ir import (
    Accumulator, Apply, Begin, Buffer, Contract, Expression, Extent, If, Index, IndexValue, Kernel,
    Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update, While,
    get_operands, iterate_expressions, iterate_statements, iterate_subexpressions,
)
from ...target.cost_model import (
    MAX_LANES, MAX_PAIRED_OPERATIONS, MAX_SIMPLE_LOOP_ACCESSES, MAX_SIMPLE_LOOP_COSTLY,
    MAX_SIMPLE_LOOP_EXPRESSIONS, MIN_LONG_SUM_ITERATIONS,
)
from ...target.machine import Target

# All other operations take several instructions, so one vector keeps enough units busy.
SINGLE_INSTRUCTION = frozenset((
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.FMA, Scalar.NEG, Scalar.ABS, Scalar.MAXIMUM,
    Scalar.MINIMUM, Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE, Scalar.AND,
    Scalar.OR, Scalar.XOR, Scalar.NOT, Scalar.SHL, Scalar.SHR, Scalar.WHERE, Scalar.CAST,
    Scalar.BITCAST, Scalar.COPYSIGN, Scalar.DIV, Scalar.SQRT, Scalar.FLOOR, Scalar.CEIL,
    Scalar.TRUNC, Scalar.ROUND,
))


@dataclass
class VectorizationPlan:
    """Vectorization decisions of one kernel.

    `widths`: lanes of each vectorized loop. `reduction_widths`: lanes of the loops that update an
    outer accumulator. `types`: the type that an accumulator compares or sums. `long_sums`: F32 sums
    with enough terms that rounding would show. `ascending`: ARGMAX and ARGMIN accumulators that
    see positions in increasing order, so only values need comparing.
    """

    widths: dict[Loop, int] = field(default_factory=dict)
    reduction_widths: dict[Accumulator, set[int]] = field(default_factory=dict)
    types: dict[Accumulator, Type] = field(default_factory=dict)
    long_sums: set[Accumulator] = field(default_factory=set)
    ascending: set[Accumulator] = field(default_factory=set)


def plan_vectorization(kernel: Kernel, target: Target) -> VectorizationPlan:
    """The vectorization plan of a kernel."""
    plan = VectorizationPlan()
    extend_plan(plan, kernel.body, target)
    return plan


def extend_plan(plan: VectorizationPlan, body: Sequence[Statement], target: Target) -> None:
    """Plan further statements."""
    for loop in find_vectorizable_loops(body):
        plan.widths[loop] = choose_lanes(loop, target)
    for statement in iterate_statements(body):
        if isinstance(statement, Update):
            accumulator = statement.accumulator
            arg = accumulator.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN)
            plan.types[accumulator] = statement.value.type if arg else accumulator.type
        elif isinstance(statement, Loop):
            _plan_reductions(plan, statement)
    plan.ascending.update(find_ascending(body))


def _plan_reductions(plan: VectorizationPlan, loop: Loop) -> None:
    """Note a loop's width for the accumulators that it updates, and which of them are long sums."""
    for accumulator in find_reduced_accumulators(loop):
        if loop in plan.widths:
            plan.reduction_widths.setdefault(accumulator, set()).add(plan.widths[loop])
        if accumulator not in plan.long_sums and _is_long_sum(plan, loop, accumulator):
            plan.long_sums.add(accumulator)


def _is_long_sum(plan: VectorizationPlan, loop: Loop, accumulator: Accumulator) -> bool:
    """Whether a loop adds enough F32 terms for rounding errors to show."""
    if accumulator.fold is not ReduceOp.SUM or accumulator.type is not Type.F32:
        return False
    count = count_updates(loop, plan, accumulator)
    if count is not None and count <= MIN_LONG_SUM_ITERATIONS:
        return False
    return not _reads(loop, accumulator)  # an iteration that reads the sum needs all of it


def _reads(loop: Loop, accumulator: Accumulator) -> bool:
    """Whether a loop's iterations read an accumulator."""
    return accumulator in collect_expressions(list(iterate_statements(loop.body)))


def find_vectorizable_loops(body: Sequence[Statement]) -> Iterator[Loop]:
    """Yield the loops to vectorize: VECTORIZED ones, and PARALLEL ones that profit."""
    for statement in body:
        if isinstance(statement, While | If):
            yield from find_vectorizable_loops(statement.body)
        if isinstance(statement, Contract) or not isinstance(statement, Loop):
            continue
        shared = statement.kind is LoopKind.PARALLEL
        if statement.kind is LoopKind.VECTORIZED or (shared and should_vectorize(statement)):
            yield statement
        else:
            yield from find_vectorizable_loops(statement.body)


def should_vectorize(loop: Loop) -> bool:
    """Whether a PARALLEL loop without inner vectorized loops mostly accesses memory with unit
    stride.
    """
    inside = list(iterate_statements(loop.body))
    if any(isinstance(s, Contract | While | If)
           or (isinstance(s, Loop) and s.kind is not LoopKind.SERIAL) for s in inside):
        return False
    if any(isinstance(s, Store) and s.buffer.local is not None for s in inside):
        return False
    # With add or indirect stores, iterations may depend on each other; lanes must not.
    if any(isinstance(s, Store) and (s.indirect or s.at.stride(loop.index) == 0) for s in inside):
        return False
    moving = [access for access in collect_accesses(inside) if access.at.stride(loop.index) != 0]
    unit_strides = sum(a.at.stride(loop.index) == 1 and not a.indirect for a in moving)
    return 2 * unit_strides > len(moving)


def collect_expressions(inside: Sequence[Statement]) -> list[Expression]:
    """All expressions in statements, each once."""
    expressions_seen: dict[Expression, None] = {}
    stack = [expression for statement in inside for expression in iterate_expressions(statement)]
    while stack:
        expression = stack.pop()
        if expression not in expressions_seen:
            expressions_seen[expression] = None
            stack.extend(get_operands(expression))
    return list(expressions_seen)


def collect_accesses(inside: Sequence[Statement]) -> list[Load | Store]:
    """The loads and stores in statements."""
    loads: list[Load | Store] = [
        expression for expression in collect_expressions(inside) if isinstance(expression, Load)
    ]
    return loads + [s for s in inside if isinstance(s, Store)]


def find_reduced_accumulators(loop: Loop) -> list[Accumulator]:
    """The accumulators that a loop updates and that began outside of it."""
    inside = list(iterate_statements(loop.body))
    begun = {s.accumulator for s in inside if isinstance(s, Begin)}
    updated = {s.accumulator: None for s in inside if isinstance(s, Update)}
    return [accumulator for accumulator in updated if accumulator not in begun]


def collect_writes(loop: Loop) -> list[Buffer | Accumulator]:
    """Buffers and accumulators that a loop writes."""
    return collect_written_values(loop.body)


def collect_written_values(body: Sequence[Statement]) -> list[Buffer | Accumulator]:
    """Buffers and accumulators that statements write."""
    targets: dict[Buffer | Accumulator, None] = {}
    for statement in iterate_statements(body):
        if isinstance(statement, Store):
            targets[statement.buffer] = None
        elif isinstance(statement, Begin | Update):
            targets[statement.accumulator] = None
        elif isinstance(statement, Contract):
            targets[statement.sum] = None
    return list(targets)


def choose_lanes(loop: Loop, target: Target) -> int:
    """Return a loop's lanes: one or more vectors of its most common element size."""
    inside = list(iterate_statements(loop.body))
    expressions, accesses = collect_expressions(inside), collect_accesses(inside)
    size = element_size(expressions, accesses)
    lanes_per_vector = max(1, target.vector_bytes // size)
    lanes = min(
        lanes_per_vector * choose_vector_count(loop, inside, expressions, accesses, target),
        MAX_LANES
    )
    if isinstance(loop.extent, int):
        if loop.extent <= 2 or (loop.extent < lanes_per_vector and target.vector_bytes < 64):
            return 1
        while lanes > lanes_per_vector and lanes >= 2 * loop.extent:
            lanes //= 2
        if loop.extent <= 4 * lanes_per_vector and _is_simple(loop, expressions, accesses):
            while lanes < loop.extent:  # a short row in one step, without a loop
                lanes *= 2
    return lanes


def element_size(expressions: Sequence[Expression], accesses: Sequence[Load | Store]) -> int:
    """Return the most common size in bytes of computed values, except positions and conditions."""
    sizes: Counter[int] = Counter()
    for expression in expressions:
        if isinstance(expression, Apply) and expression.type is not Type.BOOL:
            sizes[expression.type.size if expression.type not in (Type.F16, Type.BF16) else 4] += 2
    for place in accesses:
        sizes[place.buffer.type.size] += 1
    if not sizes:
        return 4
    most = max(sizes.values())
    common = max(size for size, count in sizes.items() if count == most)
    # With a few wide values among narrow ones, or vice versa, compromise: neither too many
    # registers nor too few lanes.
    widest = max(sizes)
    return common if widest <= 2 * common else widest // 2


def choose_vector_count(
    loop: Loop,
    inside: Sequence[Statement],
    expressions: Sequence[Expression],
    accesses: Sequence[Load | Store],
    target: Target,
) -> int:
    """Return vectors per iteration: several if one would stall on the latency of adds or loads."""
    if any(_is_gather(place, loop.index) for place in accesses):
        return 1
    costly = _count_costly(expressions)
    sums = len({s.accumulator for s in inside if isinstance(s, Update)})
    streams = len(accesses)
    if costly:
        if costly <= 2 and streams <= 4 and sums <= 2:
            return 4
        return 2 if costly <= MAX_PAIRED_OPERATIONS[target.vector_registers] else 1
    if not sums:
        # Memory-bound. A load waits for earlier stores whose addresses match within a page (4K
        # aliasing), as with arrays of equal alignment, so issue several loads first.
        return 4 if streams <= 4 and _is_long(loop) else 1
    if any(isinstance(s, Update) and s.position is not None for s in inside):
        return 2
    return 4 if sums <= 2 and streams <= 4 else 2 if sums <= 4 else 1


def _is_long(loop: Loop) -> bool:
    if isinstance(loop.extent, int):
        return loop.extent >= MIN_LONG_SUM_ITERATIONS
    return loop.kind is LoopKind.PARALLEL


def _count_costly(expressions: Sequence[Expression]) -> int:
    """How many operations take a sequence of instructions."""
    return sum(
        isinstance(expression, Apply) and expression.operation not in SINGLE_INSTRUCTION
        for expression in expressions
    )


def _is_simple(loop: Loop, expressions: Sequence[Expression],
               accesses: Sequence[Load | Store]) -> bool:
    """Whether four vectors of every value fit the registers and the code stays short."""
    if len(accesses) > MAX_SIMPLE_LOOP_ACCESSES \
            or len(expressions) > MAX_SIMPLE_LOOP_EXPRESSIONS \
            or _count_costly(expressions) > MAX_SIMPLE_LOOP_COSTLY:
        return False
    return not any(_is_gather(place, loop.index) for place in accesses)


def _is_gather(place: Load | Store, lane: Index) -> bool:
    """Whether lanes may be non-contiguous in memory."""
    return _is_strided(place.at.stride(lane)) or any(
        isinstance(expression, Accumulator)
        or (isinstance(expression, Load) and expression.at.stride(lane) != 0)
        or (isinstance(expression, IndexValue) and expression.value.stride(lane) != 0)
        for expression in iterate_subexpressions([expression for expression, _ in place.indirect])
    )


def _is_strided(stride: Extent) -> bool:
    return not isinstance(stride, int) or stride not in (-1, 0, 1)


def count_updates(loop: Loop, plan: VectorizationPlan, accumulator: Accumulator) -> int | None:
    """Return how many dependent updates of an accumulator a loop makes; None if unknown."""
    total = 0
    for statement in loop.body:
        if isinstance(statement, Update):
            total += statement.accumulator is accumulator
        elif isinstance(statement, Loop):
            inner = count_updates(statement, plan, accumulator)
            if inner is None:
                return None
            total += inner
    if total == 0:
        return 0
    most = loop.extent.most if isinstance(loop.extent, Size) else loop.extent
    return None if not isinstance(most, int) else total * -(-most // plan.widths.get(loop, 1))


def find_ascending(body: Sequence[Statement]) -> set[Accumulator]:
    """Return the accumulators with a single update, whose positions increase with each iteration.
    """
    depths: dict[Accumulator, int] = {}
    increasing: dict[Accumulator, bool] = {}

    def walk(statements: Sequence[Statement], around: tuple[Loop, ...]) -> None:
        for statement in statements:
            if isinstance(statement, Begin):
                depths[statement.accumulator] = len(around)
            elif isinstance(statement, Loop):
                walk(statement.body, (*around, statement))
            elif isinstance(statement, Update) and statement.position is not None:
                once = statement.accumulator not in increasing
                grows = _is_increasing(
                    statement.position, around[depths.get(statement.accumulator, 0) :]
                )
                increasing[statement.accumulator] = once and grows

    walk(body, ())
    return {accumulator for accumulator, is_increasing in increasing.items() if is_increasing}


def _is_increasing(position: Expression, loops: Sequence[Loop]) -> bool:
    """Whether a position increases with each iteration of nested loops."""
    if not isinstance(position, IndexValue):
        return False
    reach: int | None = 0  # of the inner loops; None: unknown
    for loop in reversed(loops):
        stride = position.value.stride(loop.index)
        if not isinstance(stride, int) or reach is None or stride <= reach:
            return False
        reach = stride * (loop.extent - 1) + reach if isinstance(loop.extent, int) else None
    return True


def iterate_unconditional(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements that run at least once whenever the body runs."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop) and isinstance(statement.extent, int) and statement.extent:
            yield from iterate_unconditional(statement.body)


def loop_indices(loop: Loop) -> set[Index]:
    """The indices of a loop and of all loops inside it."""
    indices_inside = {loop.index}
    for statement in iterate_statements(loop.body):
        if isinstance(statement, Loop):
            indices_inside.add(statement.index)
        elif isinstance(statement, Contract):
            indices_inside.update(axis.index for axis in (*statement.rows, *statement.depth))
            indices_inside.add(statement.column.index)
    return indices_inside
