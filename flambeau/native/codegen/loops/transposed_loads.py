"""Loops that read down the columns of a matrix: square tiles, turned in registers.

Where a loop over lanes strides through memory and the loop around it moves step by step, reading
along the latter and transposing is several times faster than gathering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from ...loop_ir.ir import Affine, Load, Loop, LoopKind, Statement, Store
from ...target.cost_model import MAX_GATHERED_STRIDE, MAX_TRANSPOSED_EXPRESSIONS
from ..llvm.transpose import transpose_block
from .context import Context, Scope
from .vectorization import VectorizationPlan, collect_expressions

_ELEMENT_BYTES = (4, 8)  # of elements that shuffles transpose well
Bound: TypeAlias = int | ir.Value
EmitBody: TypeAlias = Callable[[Context, Scope, Sequence[Statement]], None]
Rounds = Callable[[Context, Scope, Loop, Bound, Bound], None]


def find_transposable_loads(loop: Loop, plan: VectorizationPlan) -> list[Load]:
    """The loads that a tiled loop transposes in registers; empty if the loop is not worth tiling.
    """
    inner = loop.body[0] if len(loop.body) == 1 else None
    if loop in plan.widths or not isinstance(inner, Loop) or inner.kind is not LoopKind.VECTORIZED:
        return []
    if isinstance(inner.extent, Affine) or not all(isinstance(s, Store) for s in inner.body):
        return []
    expressions = collect_expressions(inner.body)
    written = {s.buffer for s in inner.body if isinstance(s, Store)}
    if len(expressions) > MAX_TRANSPOSED_EXPRESSIONS or any(buffer.aliased for buffer in written):
        return []
    loads = [
        expression
        for expression in expressions
        if isinstance(expression, Load) and _is_transposed(expression, loop, inner)
    ]
    return loads if not any(load.buffer in written for load in loads) else []


def _is_transposed(load: Load, outer: Loop, inner: Loop) -> bool:
    if load.indirect or load.mask is not None or load.buffer.type.size not in _ELEMENT_BYTES:
        return False
    along, across = load.at.stride(inner.index), load.at.stride(outer.index)
    return across == 1 and not (isinstance(along, int) and abs(along) <= MAX_GATHERED_STRIDE)


def tile_side(context: Context, loads: Sequence[Load]) -> int:
    """Rows and columns of a square tile: the lanes of a vector of the largest elements."""
    return context.target.vector_bytes // max(load.buffer.type.size for load in loads)


def emit_tiles(
    context: Context, scope: Scope, loop: Loop, loads: Sequence[Load], bounds: tuple,
    emit_body: EmitBody, rest: Rounds,
) -> ir.Value:
    """Emit the whole tiles of `bounds` of a loop; returns where the remainder begins.

    `emit_body` emits the inner loop's statements; `rest` runs vectorized iterations for the columns
    that fill no tile.
    """
    b, inner = context.builder, loop.body[0]
    assert isinstance(inner, Loop)
    size = tile_side(context, loads)
    start, stop = (b.integer(bound) if isinstance(bound, int) else bound for bound in bounds)
    end = b.add(start, b.and_(b.sub(stop, start), b.integer(-size)))
    width: Bound = inner.extent if isinstance(inner.extent, int) else context.extent(inner.extent)
    columns: Bound = width // size * size if isinstance(width, int) \
        else b.and_(width, b.integer(-size))
    with b.counted_loop(start, end, size, loop.index.name) as row:
        with b.counted_loop(0, columns, size, inner.index.name) as column:
            corner = scope.inside({loop.index: row, inner.index: column})
            transposed_rows = [_load_tile(context, corner, inner, load, size) for load in loads]
            for i in range(size):
                here = scope.inside({loop.index: b.add(row, b.integer(i))})
                here = here.across(inner.index, column, size, None)
                for load, rows in zip(loads, transposed_rows, strict=True):
                    here.memo[context.key(load)] = rows[i]
                emit_body(context, here, inner.body)
        if not (isinstance(width, int) and isinstance(columns, int)) or columns < width:
            with b.counted_loop(row, b.add(row, b.integer(size)), name=loop.index.name) as single:
                rest(context, scope.inside({loop.index: single}), inner, columns, width)
    return end


def _load_tile(
    context: Context, corner: Scope, inner: Loop, load: Load, size: int
) -> list[ir.Value]:
    """A square of a buffer, loaded by rows and transposed into vectors of columns."""
    b, kind = context.builder, load.buffer.type
    stride = context.extent(load.at.stride(inner.index))
    pointer = context.pointer(load.buffer, load.at, corner)
    read = []
    for _ in range(size):
        read.append(b.read(pointer, kind, size))
        pointer = b.offset_elements(pointer, stride, kind)
    return transpose_block(b, read)
