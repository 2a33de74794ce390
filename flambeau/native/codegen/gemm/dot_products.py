"""Products of few rows with both operands contiguous along the depth: dot products without packing.

A tile is rows x columns of vectors of partial sums along the depth, reduced at the end. Packing b
would cost more than few rows can gain from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Contract, Scalar
from ...target.cost_model import MAX_DOT_TILE_ROWS, MIN_DOT_DEPTH_BY_ROWS
from ..llvm.address import add, ceil_divide, constant, multiply, offset_bytes
from ..llvm.loop import emit_loop
from ..llvm.types import I32, Number, memory_type
from ..llvm.vectors import first_lanes, fma, load_vector, widen
from ..loops.epilogue import emit_epilogue
from ..loops.work_partition import split_tiles
from .micro_kernel import Sums
from .pack import emit_min


def is_few_row_product(p: Any, target: Any) -> bool:
    """Whether a product has few rows and operands contiguous along the depth."""
    if p.product is not Scalar.MUL or not isinstance(p.m, int):
        return False
    if p.a_depth != p.a_type.size or p.b_depth != p.b_type.size:
        return False
    depth = p.k if isinstance(p.k, int) else 256
    return any(
        p.m <= rows and depth >= min_depth
        for rows, min_depth in MIN_DOT_DEPTH_BY_ROWS[target.vector_registers]
    )


def sum_lanes(b: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """Sum the lanes of each of N vectors (N a power of two) into one vector of N lanes."""
    count = len(vectors)
    while len(vectors) > 1:
        vectors = [
            _add_neighbors(b, x, y) for x, y in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    vector = vectors[0]
    while vector.type.count > count:
        vector = _add_neighbors(b, vector, None)
    return vector


def _add_neighbors(b: ir.IRBuilder, x: ir.Value, y: ir.Value | None) -> ir.Value:
    """Add neighboring lanes of x, then of y."""
    count = x.type.count * (1 if y is None else 2)
    kind = ir.VectorType(I32, count // 2)
    even, odd = (
        b.shuffle_vector(x, x if y is None else y, ir.Constant(kind, list(range(i, count, 2))))
        for i in (0, 1)
    )
    return b.add(even, odd) if isinstance(x.type.element, ir.IntType) else b.fadd(even, odd)


class DotProductKernel:
    """Emits a product that satisfies `is_few_row_product`."""

    def __init__(self, context: Any, statement: Contract, p: Any) -> None:
        self.context, self.statement, self.p = context, statement, p
        self.builder = context.builder
        self.lanes = context.target.lanes(p.type)
        registers = context.target.vector_registers
        groups = -(-p.m // MAX_DOT_TILE_ROWS[registers])
        self.rows = -(-p.m // groups)
        self.columns = min(self.lanes, 8 if self.rows <= registers // 10 else 4)

    def emit(self) -> None:
        """Emit the whole product, or this thread's share of it."""
        b, p = self.builder, self.p
        groups, full_groups = -(-p.m // self.rows), p.m // self.rows
        size = self.columns
        panels = ceil_divide(b, p.n, size)
        first_group, last_group, first, last = 0, groups, 0, panels
        if not self.context.parallel:
            share = split_tiles(b, self.context.tid, self.context.threads, groups, panels)
            first_group, last_group = share.first_group, share.last_group
            first, last = share.first_panel, share.last_panel

        def groups_of(start: Number, count: Number) -> None:
            stop = emit_min(b, last_group, full_groups)

            def full(g: Number) -> None:
                self._emit_tile(multiply(b, g, self.rows), self.rows, start, count)

            self._emit_range(first_group, stop, full)
            if groups > full_groups:
                rest = p.m - full_groups * self.rows
                beyond = b.icmp_signed(">", constant(last_group), constant(full_groups))
                with b.if_then(beyond):
                    self._emit_tile(full_groups * self.rows, rest, start, count)

        def panel(i: Number) -> None:
            start = multiply(b, i, size)
            exact = isinstance(p.n, int) and p.n % size == 0
            remaining = size if exact else emit_min(b, size, b.sub(constant(p.n), constant(start)))
            groups_of(start, remaining)

        self._emit_range(first, last, panel)

    def _emit_range(self, first: Number, last: Number, body: Callable[[Number], None]) -> None:
        b = self.builder
        same = isinstance(first, int) and isinstance(last, int)
        count: Number = last - first if same else b.sub(constant(last), constant(first))
        with b.counted_loop(0, count) as i:
            body(add(b, first, i))

    def _emit_tile(self, row: Number, rows: int, column: Number, count: Number) -> None:
        """rows x columns dot products; columns beyond `count` repeat the last one, unused."""
        b, p = self.builder, self.p
        last = add(b, count, -1)
        left = [
            offset_bytes(
                b, offset_bytes(b, p.a, multiply(b, row, p.a_row)), multiply(b, i, p.a_row)
            )
            for i in range(rows)
        ]
        start = offset_bytes(b, p.b, multiply(b, column, p.b_column))
        right = [offset_bytes(b, start, multiply(b, emit_min(b, j, last), p.b_column))
                 for j in range(self.columns)]
        zero = ir.Constant(ir.VectorType(memory_type(p.type), self.lanes), None)
        sums = self._emit_depth(left, right, [zero] * (rows * self.columns))
        mask = first_lanes(b, count, self.columns)
        for i in range(rows):
            value = sum_lanes(b, sums[i * self.columns : (i + 1) * self.columns])
            bindings = {p.row: constant(add(b, row, i))}
            emit_epilogue(self.context, self.statement.body, bindings,
                          (self.statement.column.index, constant(column)), self.columns,
                          value, mask)

    def _emit_depth(self, left: list, right: list, sums: Sums) -> Sums:
        """Loop over whole vectors of the depth, then handle the remainder with a mask."""
        b, k, lanes = self.builder, self.p.k, self.lanes
        if isinstance(k, int):
            rounds, rest = k // lanes, k % lanes
        else:
            rounds, rest = b.udiv(k, constant(lanes)), b.urem(k, constant(lanes))
        sums = emit_loop(
            b, rounds, sums, lambda i, carried: self._step(left, right, i, carried, None)
        )
        if isinstance(rest, int) and rest == 0:
            return sums
        mask = first_lanes(b, rest, lanes)
        return self._step(left, right, constant(rounds), sums, mask)

    def _step(
        self, left: list, right: list, i: ir.Value, sums: Sums, mask: ir.Value | None
    ) -> Sums:
        """Emit one vector of the depth for every row and column."""
        b, p, lanes = self.builder, self.p, self.lanes

        def read(pointer: ir.Value, stored: Any) -> ir.Value:
            address = offset_bytes(b, pointer, multiply(b, i, lanes * stored.size))
            return widen(b, load_vector(b, address, stored, lanes, mask), stored, p.type)

        columns = [read(pointer, p.b_type) for pointer in right]
        out = []
        for r, pointer in enumerate(left):
            row = read(pointer, p.a_type)
            for c, column in enumerate(columns):
                out.append(fma(b, row, column, sums[r * self.columns + c]))
        return out
