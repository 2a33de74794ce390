"""Fetching ahead: lines that are asked for before a tile's epilogue goes over them, which pays
where it reads matrices, as the update of a weight does that is fused with its gradient's product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import (
    Affine, Begin, Buffer, Expression, Index, Load, Statement, Store, expressions, operands,
)
from ...target.cache_sizes import LINE_BYTES
from ..llvm.address import constant, plus
from ..llvm.types import I32, POINTER, Number

LEAST = 128 << 10  # bytes: matrices smaller than this are near by themselves
FIRST, SECOND = 3, 2  # caches, as LLVM counts them
_Stream = tuple[Buffer, Affine, bool]


def streams(body: Sequence[Statement], row: Index, column: Index) -> list[_Stream]:
    """Matrices that an epilogue goes over with its tiles: (buffer, position, whether written).

    No stream where it reads no matrix: what is only written is waited for by nobody.
    """
    found: dict[tuple[Buffer, int, tuple], _Stream] = {}
    reads = False

    def add(buffer: Buffer, at: Affine, written: bool) -> bool:
        if buffer.local is not None or at.stride(column) != 1 or at.stride(row) == 0:
            return False
        key = (buffer, at.base, at.terms)
        found[key] = (buffer, at, written or (key in found and found[key][2]))
        return True

    stack: list[Expression] = []
    for one in body:
        if not isinstance(one, Store | Begin):
            return []
        if isinstance(one, Store) and not one.indirect:
            reads |= add(one.buffer, one.at, True) and one.add
        stack += expressions(one)
    seen: set[int] = set()
    while stack:
        each = stack.pop()
        if id(each) not in seen:
            seen.add(id(each))
            stack += operands(each)
            if isinstance(each, Load) and not each.indirect:
                reads |= add(each.buffer, each.at, False)
    return list(found.values()) if reads else []


def bytes_of(found: Sequence[_Stream], m: Number, n: Number) -> int:
    """How much memory the streams go over; a great lot where that is not known."""
    if not (isinstance(m, int) and isinstance(n, int)):
        return LEAST
    return sum(m * n * buffer.type.size for buffer, _, _ in found)


def fetch(
    context: Any, found: Sequence[_Stream], row: tuple[Index, Number, int],
    column: tuple[Index, Number, int],
) -> None:  # fmt: skip
    """Asks for the lines of a tile: (index, first, how many) rows and columns."""
    b = context.builder
    for buffer, at, written in found:
        apart = LINE_BYTES // buffer.type.size
        for i in range(row[2]):
            for j in range(0, column[2], apart):
                place = {row[0]: constant(plus(b, row[1], i)),
                         column[0]: constant(plus(b, column[1], j))}  # fmt: skip
                prefetch(b, context.address(buffer, at, place), written)


def prefetch(b: ir.IRBuilder, pointer: ir.Value, write: bool, cache: int = FIRST) -> None:
    """Asks for the line of an address, into a cache."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
    name = "llvm.prefetch.p0"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    b.call(function, [pointer, *(ir.Constant(I32, one) for one in (int(write), cache, 1))])
