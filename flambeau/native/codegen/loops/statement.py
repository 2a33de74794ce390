"""Statements as LLVM IR: loops in one thread, accumulators, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Begin, Buffer, Constant, Expression, If, Index, Load, Loop, Position,
    Prefetch, Scalar, Statement, Store, Type, Update, While, expressions, operands, operands_first,
)
from . import scalar_ops
from ..llvm import casts
from .reductions import Held
from .epilogue_prefetch import SECOND, prefetch
from ..llvm.builder import lanes_of
from .context import Context, Scope
from .expression import evaluate, known, place, read, write
from .privatized_sums import gather
from .vectorization import always, changed, folded, indices, rounds, touched, written
from .stream_prefetch import NONE as NO_STREAMS
from .stream_prefetch import ask
from .transposed_loads import tiles, turned

BLOCK = 128  # rounds of a long sum that are added up by themselves
FEW = 16  # rounds of a loop inside a longer one that are not worth that
Bound: TypeAlias = "int | ir.Value"


def emit_body(context: Context, scope: Scope, body: Sequence[Statement]) -> None:
    """Emits statements one after another, where `scope` says."""
    before = context.scope
    for statement in body:
        context.scope = scope
        EMITTERS[type(statement)](context, scope, statement)
    context.scope = before


# --------------------------------------------------------------------------- single steps


def _begin(context: Context, scope: Scope, one: Begin) -> None:
    accumulator = one.accumulator
    start = None if one.start is None else evaluate(context, scope, one.start)
    widths = context.plan.folding.get(accumulator, set()) if scope.lanes == 1 else set()
    held = Held(accumulator, scope.lanes, widths, context.plan)
    held.begin(context.builder, start)
    context.held[accumulator] = held
    context.changed([accumulator])


def _update(context: Context, scope: Scope, one: Update) -> None:
    held = context.held[one.accumulator]
    assert isinstance(held, Held)
    values = [evaluate(context, scope, one.value)]
    if one.position is not None:
        values.append(evaluate(context, scope, one.position))
    mask = scope.mask if held.lanes != scope.lanes else None
    held.update(context.builder, tuple(values), scope.lanes, mask)
    context.changed([one.accumulator])


def _store(context: Context, scope: Scope, one: Store) -> None:
    for each in expressions(one):
        evaluate(context, scope, each)
    if gather(context, scope, one):
        return
    b, kind = context.builder, one.buffer.type
    value = known(context, scope, one.value)
    mask = None if one.mask is None else known(context, scope, one.mask)
    offsets = [(known(context, scope, e), context.extent(s)) for e, s in one.indirect]
    where = place(context, scope, one, offsets)
    if one.add:
        old = read(context, scope, one.buffer, *where, mask)
        lanes = max(lanes_of(old), lanes_of(value))
        wide = Type.F32 if kind in casts.HALVES else kind
        pair = [casts.cast(b, b.splat(each, lanes), kind, wide, lanes)
                for each in (old, value)]  # fmt: skip
        operation = Scalar.OR if kind is Type.BOOL else Scalar.ADD
        total = scalar_ops.apply(b, operation, pair, wide, lanes)
        value = casts.cast(b, total, wide, kind, lanes)
    write(context, scope, one.buffer, where, value, mask)
    context.changed([one.buffer])


def _prefetch(context: Context, scope: Scope, one: Prefetch) -> None:
    prefetch(context.builder, context.pointer(one.buffer, one.at, scope), False, SECOND)


# ---------------------------------------------------------------------------------- loops


def _while(context: Context, scope: Scope, one: While) -> None:
    b, what = context.builder, written(one.body)
    context.changed(what)
    test, body, after = (b.append_basic_block(f"while{part}") for part in (".test", "", ".end"))
    b.branch(test)
    b.position_at_end(test)
    inner = scope.inside({})
    b.cbranch(evaluate(context, inner, one.condition), body, after)
    b.position_at_end(body)
    emit_body(context, inner, one.body)
    b.branch(test)
    b.position_at_end(after)
    context.changed(what)


def _if(context: Context, scope: Scope, one: If) -> None:
    with context.builder.if_then(evaluate(context, scope, one.condition)):
        emit_body(context, scope.inside({}), one.body)
    context.changed(written(one.body))


def _loop(context: Context, scope: Scope, one: Loop) -> None:
    stop = one.extent if isinstance(one.extent, int) else context.extent(one.extent)
    run(context, scope, one, 0, stop)


def run(context: Context, scope: Scope, loop: Loop, start: Bound, stop: Bound) -> None:
    """The rounds of a loop from `start` up to `stop`, on this thread."""
    b = context.builder
    what = changed(loop)
    context.changed(what)
    sums = _long_sums(context, loop)
    nested = [held for held in sums if held in context.folding and (
        not held.outer or _many(loop, context, held.accumulator))]  # fmt: skip
    with _blocks(context, nested):
        before = context.folding
        context.folding = before | set(sums)
        each = _lanes if loop in context.plan.widths else _serial
        if isinstance(start, int) and isinstance(stop, int):
            if start < stop:
                hoist(context, scope, indices(loop), what, loop.body)
                each(context, scope, loop, start, stop, sums)
        else:
            first = b.integer(start) if isinstance(start, int) else start
            last = b.integer(stop) if isinstance(stop, int) else stop
            with b.if_then(b.icmp_signed("<", first, last)):
                inner = scope.inside({})
                hoist(context, inner, indices(loop), what, loop.body)
                each(context, inner, loop, first, last, sums)
        context.folding = before
    context.changed(what)


def _serial(
    context: Context, scope: Scope, loop: Loop, start: Bound, stop: Bound, sums: list[Held]
) -> None:
    def body(index: ir.Value) -> None:
        emit_body(context, scope.inside({loop.index: index}), loop.body)

    if isinstance(start, int) and isinstance(stop, int) and stop - start == 1:
        body(context.builder.integer(start))
        return
    loads = turned(loop, context.plan)
    if loads:
        start = tiles(context, scope, loop, loads, (start, stop), emit_body, run)
        context.changed(changed(loop))
    _rounds(context, loop, start, stop, 1, sums, body)


def _lanes(
    context: Context, scope: Scope, loop: Loop, start: Bound, stop: Bound, sums: list[Held]
) -> None:
    """Whole vectors, then the rest under a mask (or one by one where masks are slow)."""
    b, lanes = context.builder, context.plan.widths[loop]
    masked = context.target.vector_bytes >= 64

    def body(index: ir.Value, width: int = lanes, mask: ir.Value | None = None) -> None:
        emit_body(context, scope.across(loop.index, index, width, mask), loop.body)

    def whole_vectors(index: ir.Value) -> None:
        ask(context, scope.across(loop.index, index, lanes, None),
            context.streams.get(loop, NO_STREAMS), lanes)  # fmt: skip
        body(index)

    def rest(first: Bound, count: Bound) -> None:
        at = b.integer(first) if isinstance(first, int) else first
        if masked and lanes > 1:
            body(at, lanes, b.first_lanes(count, lanes))
        else:
            _rounds(context, loop, first, stop, 1, [], lambda index: body(index, 1))

    if isinstance(start, int) and isinstance(stop, int):
        whole = (stop - start) // lanes * lanes
        if whole == lanes:
            whole_vectors(b.integer(start))
        elif whole:
            _rounds(context, loop, start, start + whole, lanes, sums, whole_vectors)
        if start + whole < stop:
            rest(start + whole, stop - start - whole)
        return
    end = b.add(start, b.and_(b.sub(stop, start), b.integer(-lanes)))
    _rounds(context, loop, start, end, lanes, sums, whole_vectors)
    if lanes > 1:
        with b.if_then(b.icmp_signed("<", end, stop)):
            rest(end, b.sub(stop, end))


def _rounds(
    context: Context,
    loop: Loop,
    start: Bound,
    stop: Bound,
    step: int,
    sums: list[Held],
    body: Callable[[ir.Value], None],
) -> None:
    """A counted loop; where it is long and makes sums, a loop of blocks of rounds."""
    b, name = context.builder, loop.index.name
    known_count = isinstance(start, int) and isinstance(stop, int)
    if not sums or (known_count and (stop - start) // step <= BLOCK):
        with b.counted(start, stop, step, name) as index:
            body(index)
        return
    last = b.integer(stop) if isinstance(stop, int) else stop
    with b.counted(start, stop, step * BLOCK, f"{name}.block") as first:
        end = b.minimum_of(b.add(first, b.integer(step * BLOCK)), last)
        with _blocks(context, sums), b.counted(first, end, step, name) as index:
            body(index)


def _long_sums(context: Context, loop: Loop) -> list[Held]:
    """The long sums that a loop updates."""
    found = [context.held[one] for one in folded(loop) if one in context.plan.long]
    return [held for held in found if isinstance(held, Held)]


def _many(loop: Loop, context: Context, accumulator: Accumulator) -> bool:
    """Whether a loop inside a longer one is worth a block of its own."""
    count = rounds(loop, context.plan, accumulator)
    return count is None or count > FEW


@contextmanager
def _blocks(context: Context, sums: Sequence[Held]) -> Iterator[None]:
    """Folds of their own for sums, added to what they hold at the end."""
    for held in sums:
        held.open_block(context.builder)
    yield
    for held in sums:
        held.close_block(context.builder)
        context.changed([held.accumulator])


# -------------------------------------------------------------------------------- hoisting


def hoist(
    context: Context, scope: Scope, inner: set[Index], changes: Sequence[Buffer | Accumulator],
    body: Sequence[Statement],
) -> None:  # fmt: skip
    """Computes what is the same in all rounds of a body, before a loop that runs at least once.

    `inner`: the loop's indices and those inside it. LLVM would not move loads; nor does it see
    that the copies of a loop share what is moved.
    """
    what = set(changes)
    if any(isinstance(one, Buffer) and one.aliased for one in what):
        what.update(one for one in context.pointers if one.aliased)
    inside = list(always(body))
    varies: dict[Expression, bool] = {}
    roots = [one for statement in inside for one in expressions(statement)]
    for one in operands_first(roots, varies):
        varies[one] = any(varies[each] for each in operands(one)) or _moves(one, inner, what)
    for one, moving in varies.items():
        if moving:
            _hoist_each(context, scope, [e for e in operands(one) if not varies[e]])
    for statement in inside:
        _hoist_each(context, scope, [e for e in expressions(statement) if not varies[e]])
    for each in touched(inside):
        if each.buffer in context.pointers:
            context.prefix(each.buffer, each.at, scope)


def _hoist_each(context: Context, scope: Scope, found: Sequence[Expression]) -> None:
    for one in found:
        if not isinstance(one, Constant):
            evaluate(context, scope, one)


def _moves(one: Expression, inner: set, what: set) -> bool:
    """Whether an expression itself changes during a loop of these indices that writes `what`."""
    if isinstance(one, Accumulator):
        return one in what
    if isinstance(one, Load):
        return one.buffer in what or any(index in inner for index, _ in one.at.terms)
    return isinstance(one, Position) and any(index in inner for index, _ in one.value.terms)


EMITTERS: dict[type, Callable] = {
    Begin: _begin, Update: _update, Store: _store, Loop: _loop,
    Prefetch: _prefetch, While: _while, If: _if,
}  # fmt: skip
