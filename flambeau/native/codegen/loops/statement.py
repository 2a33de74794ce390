"""Emits statements: loops on one thread, accumulators, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Begin, Buffer, Constant, Expression, If, Index, IndexValue, Load, Loop, Prefetch,
    Scalar, Statement, Store, Type, Update, While, get_operands, iterate_expressions,
    iterate_postorder,
)
from ...target.cost_model import ITERATIONS_PER_PARTIAL_SUM, MIN_PARTIAL_SUM_ITERATIONS
from ..llvm import casts
from ..llvm.builder import lanes_of
from . import scalar_ops
from .context import Context, Scope
from .epilogue_prefetch import L2_LOCALITY, emit_prefetch
from .expression import address_of, evaluate, load_elements, read_memo, store_elements
from .privatized_sums import defer_sum
from .reductions import ReductionState
from .stream_prefetch import NO_STREAMS
from .stream_prefetch import prefetch_streams
from .transposed_loads import emit_tiles, find_transposable_loads
from .vectorization import (
    collect_accesses, collect_writes, collect_written_values, count_updates,
    find_reduced_accumulators, iterate_unconditional, loop_indices,
)

Bound: TypeAlias = "int | ir.Value"


def emit_body(context: Context, scope: Scope, body: Sequence[Statement]) -> None:
    """Emit statements in order, in a scope."""
    before = context.scope
    for statement in body:
        context.scope = scope
        EMITTERS[type(statement)](context, scope, statement)
    context.scope = before


# --------------------------------------------------------------------------- single steps


def _begin(context: Context, scope: Scope, begin: Begin) -> None:
    accumulator = begin.accumulator
    start = None if begin.start is None else evaluate(context, scope, begin.start)
    widths = context.plan.reduction_widths.get(accumulator, set()) if scope.lanes == 1 else set()
    state = ReductionState(accumulator, scope.lanes, widths, context.plan)
    state.begin(context.builder, start)
    context.accumulators[accumulator] = state
    context.invalidate([accumulator])


def _update(context: Context, scope: Scope, update: Update) -> None:
    state = context.accumulators[update.accumulator]
    assert isinstance(state, ReductionState)
    values = [evaluate(context, scope, update.value)]
    if update.position is not None:
        values.append(evaluate(context, scope, update.position))
    mask = scope.mask if state.lanes != scope.lanes else None
    state.update(context.builder, tuple(values), scope.lanes, mask)
    context.invalidate([update.accumulator])


def _store(context: Context, scope: Scope, store: Store) -> None:
    for expression in iterate_expressions(store):
        evaluate(context, scope, expression)
    if defer_sum(context, scope, store):
        return
    b, kind = context.builder, store.buffer.type
    value = read_memo(context, scope, store.value)
    mask = None if store.mask is None else read_memo(context, scope, store.mask)
    offsets = [(read_memo(context, scope, e), context.extent(s)) for e, s in store.indirect]
    address = address_of(context, scope, store, offsets)
    if store.add:
        old = load_elements(context, scope, store.buffer, *address, mask)
        lanes = max(lanes_of(old), lanes_of(value))
        computed = Type.F32 if kind in casts.HALVES else kind
        pair = [casts.cast(b, b.splat(part, lanes), kind, computed, lanes)
                for part in (old, value)]
        operation = Scalar.OR if kind is Type.BOOL else Scalar.ADD
        total = scalar_ops.emit_operation(b, operation, pair, computed, lanes)
        value = casts.cast(b, total, computed, kind, lanes)
    store_elements(context, scope, store.buffer, address, value, mask)
    context.invalidate([store.buffer])


def _prefetch(context: Context, scope: Scope, statement: Prefetch) -> None:
    emit_prefetch(
        context.builder, context.pointer(statement.buffer, statement.at, scope), False, L2_LOCALITY
    )


# ---------------------------------------------------------------------------------- loops


def _emit_while(context: Context, scope: Scope, statement: While) -> None:
    b, targets = context.builder, collect_written_values(statement.body)
    context.invalidate(targets)
    test, body, after = (b.append_basic_block(f"while{part}") for part in (".test", "", ".end"))
    b.branch(test)
    b.position_at_end(test)
    inner = scope.inside({})
    b.cbranch(evaluate(context, inner, statement.condition), body, after)
    b.position_at_end(body)
    emit_body(context, inner, statement.body)
    b.branch(test)
    b.position_at_end(after)
    context.invalidate(targets)


def _emit_if(context: Context, scope: Scope, statement: If) -> None:
    with context.builder.if_then(evaluate(context, scope, statement.condition)):
        emit_body(context, scope.inside({}), statement.body)
    context.invalidate(collect_written_values(statement.body))


def _loop(context: Context, scope: Scope, loop: Loop) -> None:
    stop = loop.extent if isinstance(loop.extent, int) else context.extent(loop.extent)
    emit_rounds(context, scope, loop, 0, stop)


def emit_rounds(context: Context, scope: Scope, loop: Loop, start: Bound, stop: Bound) -> None:
    """Emit the iterations of a loop from `start` to `stop`, on this thread."""
    b = context.builder
    targets = collect_writes(loop)
    context.invalidate(targets)
    sums = _list_long_sums(context, loop)
    nested = [state for state in sums if state in context.active_reductions and (
        not state.outer or _deserves_partial_sum(loop, context, state.accumulator))]
    with _open_partial_sums(context, nested):
        before = context.active_reductions
        context.active_reductions = before | set(sums)
        emit = _emit_lanes if loop in context.plan.widths else _emit_serial
        if isinstance(start, int) and isinstance(stop, int):
            if start < stop:
                hoist_invariants(context, scope, loop_indices(loop), targets, loop.body)
                emit(context, scope, loop, start, stop, sums)
        else:
            first = b.integer(start) if isinstance(start, int) else start
            last = b.integer(stop) if isinstance(stop, int) else stop
            with b.if_then(b.icmp_signed("<", first, last)):
                inner = scope.inside({})
                hoist_invariants(context, inner, loop_indices(loop), targets, loop.body)
                emit(context, inner, loop, first, last, sums)
        context.active_reductions = before
    context.invalidate(targets)


def _emit_serial(
    context: Context,
    scope: Scope,
    loop: Loop,
    start: Bound,
    stop: Bound,
    sums: list[ReductionState],
) -> None:
    def body(index: ir.Value) -> None:
        emit_body(context, scope.inside({loop.index: index}), loop.body)

    if isinstance(start, int) and isinstance(stop, int) and stop - start == 1:
        body(context.builder.integer(start))
        return
    loads = find_transposable_loads(loop, context.plan)
    if loads:
        start = emit_tiles(context, scope, loop, loads, (start, stop), emit_body, emit_rounds)
        context.invalidate(collect_writes(loop))
    _emit_rounds(context, loop, start, stop, 1, sums, body)


def _emit_lanes(
    context: Context,
    scope: Scope,
    loop: Loop,
    start: Bound,
    stop: Bound,
    sums: list[ReductionState],
) -> None:
    """Emit whole vectors, then the remainder under a mask, or one by one if masks are slow."""
    b, lanes = context.builder, context.plan.widths[loop]
    masked = context.target.vector_bytes >= 64

    def body(index: ir.Value, width: int = lanes, mask: ir.Value | None = None) -> None:
        emit_body(context, scope.across(loop.index, index, width, mask), loop.body)

    def whole_vectors(index: ir.Value) -> None:
        prefetch_streams(context, scope.across(loop.index, index, lanes, None),
            context.streams.get(loop, NO_STREAMS), lanes)
        body(index)

    def rest(first: Bound, count: Bound) -> None:
        start = b.integer(first) if isinstance(first, int) else first
        if masked and lanes > 1:
            body(start, lanes, b.first_lanes(count, lanes))
        else:
            _emit_rounds(context, loop, first, stop, 1, [], lambda index: body(index, 1))

    if isinstance(start, int) and isinstance(stop, int):
        full = (stop - start) // lanes * lanes
        if full == lanes:
            whole_vectors(b.integer(start))
        elif full:
            _emit_rounds(context, loop, start, start + full, lanes, sums, whole_vectors)
        if start + full < stop:
            rest(start + full, stop - start - full)
        return
    end = b.add(start, b.and_(b.sub(stop, start), b.integer(-lanes)))
    _emit_rounds(context, loop, start, end, lanes, sums, whole_vectors)
    if lanes > 1:
        with b.if_then(b.icmp_signed("<", end, stop)):
            rest(end, b.sub(stop, end))


def _emit_rounds(
    context: Context,
    loop: Loop,
    start: Bound,
    stop: Bound,
    step: int,
    sums: list[ReductionState],
    body: Callable[[ir.Value], None],
) -> None:
    """Emit a counted loop; a long one that feeds long sums becomes a loop over blocks."""
    b, name = context.builder, loop.index.name
    known_count = isinstance(start, int) and isinstance(stop, int)
    if not sums or (known_count and (stop - start) // step <= ITERATIONS_PER_PARTIAL_SUM):
        with b.counted_loop(start, stop, step, name) as index:
            body(index)
        return
    last = b.integer(stop) if isinstance(stop, int) else stop
    with b.counted_loop(start, stop, step * ITERATIONS_PER_PARTIAL_SUM, f"{name}.block") as first:
        end = b.minimum_of(b.add(first, b.integer(step * ITERATIONS_PER_PARTIAL_SUM)), last)
        with _open_partial_sums(context, sums), b.counted_loop(first, end, step, name) as index:
            body(index)


def _list_long_sums(context: Context, loop: Loop) -> list[ReductionState]:
    """Return the long sums that a loop updates."""
    states = [
        context.accumulators[accumulator]
        for accumulator in find_reduced_accumulators(loop)
        if accumulator in context.plan.long_sums
    ]
    return [state for state in states if isinstance(state, ReductionState)]


def _deserves_partial_sum(loop: Loop, context: Context, accumulator: Accumulator) -> bool:
    """Whether a loop inside a longer one has enough iterations for a separate partial sum."""
    count = count_updates(loop, context.plan, accumulator)
    return count is None or count > MIN_PARTIAL_SUM_ITERATIONS


@contextmanager
def _open_partial_sums(context: Context, sums: Sequence[ReductionState]) -> Iterator[None]:
    """Give sums a partial sum within the block, and add it at the end."""
    for sum in sums:
        sum.open_block(context.builder)
    yield
    for sum in sums:
        sum.close_block(context.builder)
        context.invalidate([sum.accumulator])


# -------------------------------------------------------------------------------- hoisting


def hoist_invariants(
    context: Context, scope: Scope, inner: set[Index], changes: Sequence[Buffer | Accumulator],
    body: Sequence[Statement],
) -> None:
    """Compute loop-invariant values of a body before a loop that runs at least once.

    `inner` are the indices of the loop and those inside it. LLVM would not hoist loads, and does
    not see that copies of a loop share what was hoisted.
    """
    targets = set(changes)
    if any(isinstance(target, Buffer) and target.aliased for target in targets):
        targets.update(buffer for buffer in context.pointers if buffer.aliased)
    inside = list(iterate_unconditional(body))
    varies: dict[Expression, bool] = {}
    roots = [expression for statement in inside for expression in iterate_expressions(statement)]
    for expression in iterate_postorder(roots, varies):
        varies[expression] = any(varies[operand] for operand in get_operands(expression)) \
            or _varies(expression, inner, targets)
    for expression, moving in varies.items():
        if moving:
            _evaluate_each(context, scope, [e for e in get_operands(expression) if not varies[e]])
    for statement in inside:
        _evaluate_each(context, scope, [e for e in iterate_expressions(statement) if not varies[e]])
    for access in collect_accesses(inside):
        if access.buffer in context.pointers:
            context.prefix(access.buffer, access.at, scope)


def _evaluate_each(
    context: Context, scope: Scope, expressions_to_hoist: Sequence[Expression]
) -> None:
    for expression in expressions_to_hoist:
        if not isinstance(expression, Constant):
            evaluate(context, scope, expression)


def _varies(expression: Expression, inner: set, targets: set) -> bool:
    """Whether an expression itself varies in a loop over `inner` that writes `targets`."""
    if isinstance(expression, Accumulator):
        return expression in targets
    if isinstance(expression, Load):
        return expression.buffer in targets or any(index in inner for index,
                                                   _ in expression.at.terms)
    return isinstance(expression, IndexValue) and any(
        index in inner for index, _ in expression.value.terms
    )


EMITTERS: dict[type, Callable] = {
    Begin: _begin, Update: _update, Store: _store, Loop: _loop,
    Prefetch: _prefetch, While: _emit_while, If: _emit_if,
}
