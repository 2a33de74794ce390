"""Arguments that threads add to, each in a row of its own, which begins at zero.

A thread adds up what it makes where no other does, so nobody waits. It clears its row, and those
of threads that there might be and are not. A tile adds up its own rows first, in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from ...loop_ir.ir import Buffer, Store
from ..llvm.builder import MEMORY, vector
from .context import Context, Gathered, Scope
from .expression import known, place, read, write
from ..llvm.vectors import store_vector


def own_rows(context: Context, buffers: Sequence[Buffer]) -> None:
    """Lets as many threads go on as there are rows; `pointers` are those of their own rows."""
    shared = [one for one in buffers if one.parts is not None]
    if not shared:
        return
    b = context.builder
    most = b.integer(min(one.parts[0] for one in shared if one.parts is not None))
    alone, work = b.append_basic_block("alone"), b.append_basic_block("work")
    b.cbranch(b.icmp_signed("<", context.tid, most), work, alone)
    b.position_at_end(alone)
    b.ret_void()
    b.position_at_end(work)
    context.threads = b.minimum_of(context.threads, most)
    for one in shared:
        assert one.parts is not None
        rows, columns = one.parts
        start = context.pointers[one]
        left = b.sub(b.integer(rows - 1), context.tid)
        with b.counted(0, b.add(b.udiv(left, context.threads), b.integer(1)), name="row") as i:
            row = b.add(context.tid, b.mul(i, context.threads))
            _clear(context, one, b.moved(start, b.mul(row, b.integer(columns)), one.type), columns)
        own = b.mul(context.tid, b.integer(columns))
        context.pointers[one] = b.moved(start, own, one.type)


def _clear(context: Context, one: Buffer, row: ir.Value, columns: int) -> None:
    b, lanes = context.builder, context.target.vector_bytes // one.type.size
    whole = columns // lanes * lanes
    kind = MEMORY[one.type]
    if whole:
        with b.counted(0, whole, lanes, "clear") as i:
            zeros = ir.Constant(vector(kind, lanes), None)
            store_vector(b, zeros, b.moved(row, i, one.type), one.type.size)
    if whole < columns:
        with b.counted(whole, columns, name="clear") as i:
            b.store(ir.Constant(kind, None), b.moved(row, i, one.type), align=one.type.size)


@contextmanager
def adding_up(context: Context, wanted: bool = True) -> Iterator[None]:
    """What is emitted within adds up in registers what goes to one place of a thread's row, if
    that is `wanted`; values made in one branch alone are not."""
    before = context.gathered
    context.gathered = {} if wanted else None
    yield
    found, context.gathered = context.gathered, before
    for one in (found or {}).values():
        buffer, scope = one.buffer, one.scope
        old = read(context, scope, buffer, *one.where, None)
        total = context.builder.fadd(old, one.total)
        write(context, scope, buffer, one.where, total, None)
        context.changed([buffer])


def gather(context: Context, scope: Scope, one: Store) -> bool:
    """Puts a value aside that is to be added to a thread's row; False where it is not."""
    found = context.gathered
    if found is None or one.buffer.parts is None or one.indirect or one.mask is not None:
        return False
    b = context.builder
    value = b.splat(known(context, scope, one.value), scope.lanes)
    key = (one, *(scope.bindings[index] for index, _ in one.at.terms))
    before = found.get(key)
    if before is None:
        where = place(context, scope, one, [])
        found[key] = Gathered(one.buffer, scope, where, value)
    else:
        before.total = b.fadd(before.total, value)
    return True
