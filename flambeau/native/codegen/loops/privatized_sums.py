"""Privatized sums: shares of the work add into rows of their own, which start at zero.

There are as many shares as rows, whatever the number of threads; a thread computes several in turn.
No thread waits for another. A tile first sums its own rows in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from ...loop_ir.ir import Buffer, Store
from ..llvm.builder import MEMORY, vector
from ..llvm.vectors import store_vector
from .context import Context, PendingSum, Scope
from .expression import address_of, load_elements, read_memo, store_elements


def count_private_rows(buffers: Sequence[Buffer]) -> int | None:
    """Return into how many shares a kernel's privatized sums split its work; None without any."""
    return min((buffer.parts[0] for buffer in buffers if buffer.parts is not None), default=None)


def assign_private_rows(context: Context, buffers: Sequence[Buffer]) -> None:
    """Redirects privatized buffers to the row of this share, `context.tid`, and clears it."""
    b = context.builder
    for buffer in buffers:
        if buffer.parts is None:
            continue
        rows, columns = buffer.parts
        start = context.pointers[buffer]
        remaining = b.sub(b.integer(rows - 1), context.tid)
        with b.counted_loop(0, b.add(b.udiv(remaining, context.threads), b.integer(1)),
                            name="row") as i:
            row = b.add(context.tid, b.mul(i, context.threads))
            _clear_row(
                context,
                buffer,
                b.offset_elements(start, b.mul(row, b.integer(columns)), buffer.type),
                columns,
            )
        own = b.mul(context.tid, b.integer(columns))
        context.pointers[buffer] = b.offset_elements(start, own, buffer.type)


def _clear_row(context: Context, buffer: Buffer, row: ir.Value, columns: int) -> None:
    b, lanes = context.builder, context.target.vector_bytes // buffer.type.size
    full_columns = columns // lanes * lanes
    kind = MEMORY[buffer.type]
    if full_columns:
        with b.counted_loop(0, full_columns, lanes, "clear") as i:
            zeros = ir.Constant(vector(kind, lanes), None)
            store_vector(b, zeros, b.offset_elements(row, i, buffer.type), buffer.type.size)
    if full_columns < columns:
        with b.counted_loop(full_columns, columns, name="clear") as i:
            b.store(
                ir.Constant(kind, None),
                b.offset_elements(row, i, buffer.type),
                align=buffer.type.size,
            )


@contextmanager
def accumulate_in_registers(context: Context, is_enabled: bool = True) -> Iterator[None]:
    """Accumulate stores to one place of a private row in registers within the block.

    Values computed in only one branch are excluded. Does nothing unless `is_enabled`.
    """
    before = context.pending_sums
    context.pending_sums = {} if is_enabled else None
    yield
    pending, context.pending_sums = context.pending_sums, before
    for sum in (pending or {}).values():
        buffer, scope = sum.buffer, sum.scope
        old = load_elements(context, scope, buffer, *sum.where, None)
        total = context.builder.fadd(old, sum.total)
        store_elements(context, scope, buffer, sum.where, total, None)
        context.invalidate([buffer])


def defer_sum(context: Context, scope: Scope, store: Store) -> bool:
    """Defers an add to a private row; False if the store is of another kind."""
    pending = context.pending_sums
    if pending is None or store.buffer.parts is None or store.indirect or store.mask is not None:
        return False
    b = context.builder
    value = b.splat(read_memo(context, scope, store.value), scope.lanes)
    key = (store, *(scope.bindings[index] for index, _ in store.at.terms))
    before = pending.get(key)
    if before is None:
        address = address_of(context, scope, store, [])
        pending[key] = PendingSum(store.buffer, scope, address, value)
    else:
        before.total = b.fadd(before.total, value)
    return True
