"""Splits outermost parallel loops among the threads."""

from __future__ import annotations

from math import prod

from llvmlite import ir

from ...loop_ir.ir import Buffer, Loop, LoopKind, Statement, Store, Type, iterate_statements
from ...target.cache_sizes import LINE_BYTES
from ...target.cost_model import ITERATIONS_PER_VECTORIZED_BLOCK, MIN_ITERATIONS_TO_SPLIT
from .context import Context, Scope
from .statement import emit_body, emit_rounds
from .transposed_loads import find_transposable_loads, tile_side


def emit_parallel(context: Context, statement: Statement) -> None:
    """Emit an outermost statement, split among the threads."""
    if not isinstance(statement, Loop):
        emit_body(context, Scope(), [statement])
        return
    nest = [statement]
    while (
        not _count_block_iterations(context, nest[-1])
        and len(nest[-1].body) == 1
        and isinstance(inner := nest[-1].body[0], Loop)
        and inner.kind is LoopKind.PARALLEL
    ):
        nest.append(inner)
    if len(nest) > 1 and _count_block_iterations(context, nest[-1]) and has_enough_rounds(
        nest[:-1]
    ):
        nest.pop()
    context.parallel = True
    if len(nest) == 1:
        start, stop = _split_loop(context, statement)
        emit_rounds(context, Scope(), statement, start, stop)
    else:
        _emit_nest(context, nest, _count_block_iterations(context, nest[-1]))
    context.parallel = False


def _count_block_iterations(context: Context, loop: Loop) -> int:
    """How many iterations of a vectorized or tiled loop form one unit of work; 0 for other loops.
    """
    loads = find_transposable_loads(loop, context.plan)
    if loads:
        return tile_side(context, loads)
    return ITERATIONS_PER_VECTORIZED_BLOCK if context.plan.widths.get(loop, 1) > 1 else 0


def has_enough_rounds(nest: list[Loop]) -> bool:
    """Whether a loop nest has enough iterations for all threads, as far as extents are known."""
    extents = [loop.extent for loop in nest if isinstance(loop.extent, int)]
    return len(extents) == len(nest) and prod(extents) >= MIN_ITERATIONS_TO_SPLIT


def _split_loop(context: Context, loop: Loop) -> tuple[ir.Value, ir.Value]:
    """This thread's iterations of a loop: whole cache lines if it is vectorized or tiled."""
    loads = find_transposable_loads(loop, context.plan)
    lanes = tile_side(context, loads) if loads else min(
        context.plan.widths.get(loop, 1), LINE_BYTES // Type.F32.size)
    extent = context.extent(loop.extent)
    if lanes == 1:
        return split_rounds(context, extent)
    b = context.builder
    rounds = b.sdiv(b.add(extent, b.integer(lanes - 1)), b.integer(lanes))
    start, stop = (b.mul(bound, b.integer(lanes)) for bound in split_rounds(context, rounds))
    return start, b.minimum_of(stop, extent)


def split_rounds(context: Context, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """This thread's first iteration out of `count`, and the end of its range."""
    b = context.builder
    start = b.udiv(b.mul(context.tid, count), context.threads)
    following = b.add(context.tid, b.integer(1))
    return start, b.udiv(b.mul(following, count), context.threads)


def _emit_nest(context: Context, nest: list[Loop], block: int) -> None:
    """Split perfectly nested PARALLEL loops as one iteration space.

    The innermost loop is divided in blocks of `block` iterations.
    """
    b = context.builder
    extents = [context.extent(loop.extent) for loop in nest]
    if block:
        rounded_up = b.add(extents[-1], b.integer(block - 1))
        extents[-1] = b.udiv(rounded_up, b.integer(block))
    total = extents[0]
    for extent in extents[1:]:
        total = b.mul(total, extent)
    targets = [target for target in _list_written_buffers(nest[0]) if target in context.versions]
    with b.counted_loop(*split_rounds(context, total), name="round") as number:
        indices: list[ir.Value] = []
        for extent in reversed(extents[1:]):
            indices.insert(0, b.urem(number, extent))
            number = b.udiv(number, extent)
        values = [number, *indices]
        context.invalidate(targets)
        if block:
            start = b.mul(values.pop(), b.integer(block))
            limit = b.add(start, b.integer(block))
            stop = b.minimum_of(limit, context.extent(nest[-1].extent))
        known = dict(zip((loop.index for loop in nest), values, strict=False))
        scope = Scope().inside(known)
        if block:
            emit_rounds(context, scope, nest[-1], start, stop)
        else:
            emit_body(context, scope, nest[-1].body)
    context.invalidate(targets)


def _list_written_buffers(loop: Loop) -> list[Buffer]:
    return [s.buffer for s in iterate_statements(loop.body) if isinstance(s, Store)]
