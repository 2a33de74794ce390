"""Prefetches the matrices that a contraction's epilogue reads, before each tile.

It pays for epilogues that stream matrices, as a weight update fused with its gradient's product
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import (
    Affine, Begin, Buffer, Expression, Index, Load, Statement, Store, get_operands,
    iterate_expressions,
)
from ...target.cache_sizes import LINE_BYTES
from ...target.cost_model import MIN_EPILOGUE_PREFETCH_BYTES
from ..llvm.address import add, constant
from ..llvm.types import I32, POINTER, Number

L1_LOCALITY, L2_LOCALITY = 3, 2  # operands of llvm.prefetch
_Stream = tuple[Buffer, Affine, bool]


def find_epilogue_streams(body: Sequence[Statement], row: Index, column: Index) -> list[_Stream]:
    """The matrices that an epilogue walks tile by tile: (buffer, position, whether written).

    Empty if it reads none: nothing waits for a matrix that is only written.
    """
    streams_by_place: dict[tuple[Buffer, int, tuple], _Stream] = {}
    reads = False

    def add(buffer: Buffer, at: Affine, written: bool) -> bool:
        if buffer.local is not None or at.stride(column) != 1 or at.stride(row) == 0:
            return False
        key = (buffer, at.base, at.terms)
        streams_by_place[key] = (
            buffer,
            at,
            written or (key in streams_by_place and streams_by_place[key][2]),
        )
        return True

    stack: list[Expression] = []
    for statement in body:
        if not isinstance(statement, Store | Begin):
            return []
        if isinstance(statement, Store) and not statement.indirect:
            reads |= add(statement.buffer, statement.at, True) and statement.add
        stack += iterate_expressions(statement)
    seen: set[int] = set()
    while stack:
        expression = stack.pop()
        if id(expression) not in seen:
            seen.add(id(expression))
            stack += get_operands(expression)
            if isinstance(expression, Load) and not expression.indirect:
                reads |= add(expression.buffer, expression.at, False)
    return list(streams_by_place.values()) if reads else []


def count_stream_bytes(streams: Sequence[_Stream], m: Number, n: Number) -> int:
    """Bytes that the streams cover; a large number if the extents are unknown."""
    if not (isinstance(m, int) and isinstance(n, int)):
        return MIN_EPILOGUE_PREFETCH_BYTES
    return sum(m * n * buffer.type.size for buffer, _, _ in streams)


def prefetch_tile(
    context: Any, streams: Sequence[_Stream], row: tuple[Index, Number, int],
    column: tuple[Index, Number, int],
) -> None:
    """Prefetch the lines of one tile: (index, first, count) of rows and columns."""
    b = context.builder
    for buffer, at, written in streams:
        step = LINE_BYTES // buffer.type.size
        for i in range(row[2]):
            for j in range(0, column[2], step):
                place = {row[0]: constant(add(b, row[1], i)),
                         column[0]: constant(add(b, column[1], j))}
                emit_prefetch(b, context.address(buffer, at, place), written)


def emit_prefetch(
    b: ir.IRBuilder, pointer: ir.Value, write: bool, cache: int = L1_LOCALITY
) -> None:
    """Prefetch the line of an address into a cache level."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
    name = "llvm.prefetch.p0"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    b.call(
        function, [pointer, *(ir.Constant(I32, argument) for argument in (int(write), cache, 1))]
    )
