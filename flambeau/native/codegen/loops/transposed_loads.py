"""Loops that read down the columns of a matrix: square tiles, turned in registers.

Where a loop over lanes strides through memory and the loop around it moves step by step, reading
along the latter and transposing is several times faster than gathering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import Affine, Kind, Load, Loop, Statement, Store
from .context import Context, Scope
from ..llvm.transpose import transposed
from .vectorization import Plan, nodes

SIZES = (4, 8)  # of elements that shuffles turn well
Bound: TypeAlias = int | ir.Value
EmitBody: TypeAlias = Callable[[Context, Scope, Sequence[Statement]], None]
Rounds = Callable[[Context, Scope, Loop, Bound, Bound], None]


def turned(loop: Loop, made: Plan) -> list[Load]:
    """The loads that are turned where a loop runs in tiles; none where it does not."""
    inner = loop.body[0] if len(loop.body) == 1 else None
    if loop in made.widths or not isinstance(inner, Loop) or inner.kind is not Kind.LANES:
        return []
    if isinstance(inner.extent, Affine) or not all(isinstance(s, Store) for s in inner.body):
        return []
    every = nodes(inner.body)
    written = {s.buffer for s in inner.body if isinstance(s, Store)}
    if len(every) > 12 or any(buffer.aliased for buffer in written):
        return []
    loads = [one for one in every if isinstance(one, Load) and _turns(one, loop, inner)]
    return loads if not any(one.buffer in written for one in loads) else []


def _turns(one: Load, outer: Loop, inner: Loop) -> bool:
    if one.indirect or one.mask is not None or one.buffer.type.size not in SIZES:
        return False
    along, across = one.at.stride(inner.index), one.at.stride(outer.index)
    return across == 1 and not (isinstance(along, int) and abs(along) <= 4)


def side(context: Context, loads: Sequence[Load]) -> int:
    """Rows and columns of a tile: the lanes of the largest elements."""
    return context.target.vector_bytes // max(one.buffer.type.size for one in loads)


def tiles(
    context: Context, scope: Scope, loop: Loop, loads: Sequence[Load], bounds: tuple,
    emit_body: EmitBody, rest: Rounds,
) -> ir.Value:
    """Runs the whole tiles' rows of `bounds` of a loop; where what is left begins.

    `emit_body` emits the inner loop's statements; `rest` runs some rounds of the loop over lanes,
    for the columns that fill no tile.
    """
    b, inner = context.builder, loop.body[0]
    assert isinstance(inner, Loop)
    size = side(context, loads)
    start, stop = (b.integer(one) if isinstance(one, int) else one for one in bounds)
    end = b.add(start, b.and_(b.sub(stop, start), b.integer(-size)))
    known = isinstance(inner.extent, int)
    width: Bound = inner.extent if isinstance(inner.extent, int) else context.extent(inner.extent)
    columns: Bound = width // size * size if isinstance(width, int) \
        else b.and_(width, b.integer(-size))
    with b.counted(start, end, size, loop.index.name) as row:
        with b.counted(0, columns, size, inner.index.name) as column:
            corner = scope.inside({loop.index: row, inner.index: column})
            found = [_tile(context, corner, inner, one, size) for one in loads]
            for i in range(size):
                here = scope.inside({loop.index: b.add(row, b.integer(i))})
                here = here.across(inner.index, column, size, None)
                for one, rows in zip(loads, found, strict=True):
                    here.memo[context.key(one)] = rows[i]
                emit_body(context, here, inner.body)
        if not known or columns < width:
            with b.counted(row, b.add(row, b.integer(size)), name=loop.index.name) as each:
                rest(context, scope.inside({loop.index: each}), inner, columns, width)
    return end


def _tile(context: Context, corner: Scope, inner: Loop, one: Load, size: int) -> list[ir.Value]:
    """A square of a buffer, as the vectors of its turned rows."""
    b, kind = context.builder, one.buffer.type
    stride = context.extent(one.at.stride(inner.index))
    pointer = context.pointer(one.buffer, one.at, corner)
    read = []
    for _ in range(size):
        read.append(b.read(pointer, kind, size))
        pointer = b.moved(pointer, stride, kind)
    return transposed(b, read)
