"""A convolution's register tile at its position, and its epilogue: the contraction's body.

The epilogue's lanes run over the columns, or, where its stores are nearer to one another along the
rows, over the rows: squares of rows by columns are transposed for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from math import prod

from llvmlite import ir

from ...loop_ir.ir import (
    Contract, Extent, Index, Load, Store, iterate_expressions, iterate_statements,
    iterate_subexpressions,
)
from ..gemm.blocking import is_cheap_epilogue
from ..gemm.micro_kernel import MicroTile, Sums
from ..gemm.pack_panels import transpose_into
from ..llvm.address import constant, multiply, offset_bytes
from ..llvm.builder import Builder
from ..llvm.vectors import load_vector, store_vector
from ..loops.context import Context
from ..loops.epilogue import emit_epilogue
from ..loops.privatized_sums import accumulate_in_registers
from .direct_blocking import ConvPlan

Bindings = dict[Index, ir.Value]


def collect_epilogue_accesses(contract: Contract) -> Iterator[Load | Store]:
    """Everything that the epilogue's body reads or writes."""
    inside = list(iterate_statements(contract.body))
    yield from (statement for statement in inside if isinstance(statement, Store))
    roots = (expression for statement in inside for expression in iterate_expressions(statement))
    yield from (expression for expression in iterate_subexpressions(roots)
                if isinstance(expression, Load))


def _is_long(contract: Contract) -> bool:
    """Whether an epilogue does much work on elements that are not summed."""
    stores = [statement for statement in contract.body if isinstance(statement, Store)]
    return not is_cheap_epilogue(contract.body) and all(
        store.buffer.parts is None for store in stores
    )


def _is_shorter_step(x: Extent, y: Extent) -> bool:
    """Whether stride x is a step in memory, and a shorter one than y."""
    return isinstance(x, int) and isinstance(y, int) and 0 < abs(x) < abs(y)


def runs_along_rows(contract: Contract, last: Index) -> bool:
    """Whether an epilogue's stores are closer along the row axis `last`."""
    column = contract.column.index
    accesses = [s.at for s in contract.body if isinstance(s, Store)]
    return bool(accesses) and all(
        p.stride(column) not in (0, 1) and _is_shorter_step(p.stride(last), p.stride(column))
        for p in accesses
    )


class PlacedTile:
    """A register tile at its position: its first row, and its extent along the cut axis.

    `start` is the first row of its unit.
    """

    def __init__(self, cut: ConvPlan, contract: Contract, b: Builder, start: list[ir.Value],
                 rows: list[ir.Value], extent: int) -> None:
        self.cut, self.contract, self.b = cut, contract, b
        self.start, self.rows, self.extent = start, rows, extent

    def extents(self) -> list[int]:
        """Its extents along the row axes from the cut one on."""
        cut = self.cut
        return [self.extent, *cut.row_extents[cut.shape.axis + 1 :]]

    def deltas(self) -> list[tuple[int, ...]]:
        """Each row's distance from the first, along those axes."""
        return list(product(*(range(n) for n in self.extents())))

    def offsets(self, a_stride: Callable[[Index], int]) -> list[int]:
        """Each row's distance from the first in `a`, in bytes."""
        cut = self.cut
        strides = [a_stride(a.index) for a in cut.rows[cut.shape.axis :]]
        return [sum(i * s for i, s in zip(delta, strides, strict=True)) for delta in self.deltas()]

    def bindings(self, deltas: tuple[int, ...]) -> Bindings:
        """The rows' indices for one of its rows; axes of one row are at 0."""
        cut, b = self.cut, self.b
        indices = {a.index: constant(0) for a in self.contract.rows}
        indices |= {a.index: v for a, v in zip(cut.rows, self.rows, strict=True)}
        for axis, delta in zip(cut.rows[cut.shape.axis :], deltas, strict=True):
            if delta:
                indices[axis.index] = b.add(indices[axis.index], constant(delta))
        return indices

    def shape(self, valid: int) -> MicroTile:
        """Its shape, over a panel of `valid` columns."""
        cut = self.cut
        return MicroTile(prod(self.extents()), -(-valid // cut.lanes), cut.lanes, cut.type)


class ConvEpilogue:
    """The epilogue that consumes a tile's sums."""

    def __init__(self, context: Context, contract: Contract, cut: ConvPlan) -> None:
        self.context, self.contract, self.cut = context, contract, cut
        self.sideways = runs_along_rows(contract, cut.rows[-1].index)
        self.flat = self.sideways and self._is_flat()
        self.long_sums = not self.sideways and _is_long(contract)

    def _is_flat(self) -> bool:
        """Whether a whole tile's rows are contiguous for the epilogue."""
        axes = self.cut.rows[self.cut.shape.axis :]
        for place in collect_epilogue_accesses(self.contract):
            strides = [place.at.stride(a.index) for a in axes]
            if not any(strides):
                continue
            step = 1
            for axis, stride in zip(reversed(axes), reversed(strides), strict=True):
                if stride != step:
                    return False
                step *= int(axis.extent)  # type: ignore[arg-type]
        return True

    def emit(self, tile: PlacedTile, sums: Sums, column: ir.Value, valid: int, square: ir.Value,
             turning: ir.Value) -> None:
        """The body, for a tile over `valid` columns from `column` on; the rest is scratch."""
        if self.sideways:
            self._emit_along_rows(tile, sums, column, valid, square, turning)
            return
        if self.long_sums:
            self._emit_by_vector(tile, sums, column, valid, turning)
            return
        b, cut, vectors = self.context.builder, self.cut, tile.shape(valid).vectors
        starts = [b.add(column, constant(j * cut.lanes)) for j in range(vectors)]
        with accumulate_in_registers(self.context):
            for i, deltas in enumerate(tile.deltas()):
                bindings = tile.bindings(deltas)
                for j, start in enumerate(starts):
                    remaining = valid - j * cut.lanes
                    mask = None if remaining >= cut.lanes else b.first_lanes(remaining, cut.lanes)
                    emit_epilogue(
                        self.context, self.contract.body, bindings,
                        (self.contract.column.index, start), cut.lanes,
                        sums[i * vectors + j], mask)

    def _emit_by_vector(
        self, tile: PlacedTile, sums: Sums, column: ir.Value, valid: int, turning: ir.Value
    ) -> None:
        """Emit the epilogue in a loop over vectors: all sums at once leave no registers for long
        work."""
        b, lanes, size = self.context.builder, self.cut.lanes, self.cut.type.size
        vectors, full = tile.shape(valid).vectors, valid // lanes
        for k, value in enumerate(sums):
            store_vector(b, value, offset_bytes(b, turning, k * lanes * size), size)

        def emit_vector(known: Bindings, row: ir.Value, j: ir.Value, mask: ir.Value | None) -> None:
            place = b.add(b.mul(row, constant(vectors)), j)
            vector_sums = load_vector(
                b,
                offset_bytes(b, turning, b.mul(place, constant(lanes * size))),
                self.cut.type,
                lanes,
            )
            start = b.add(column, b.mul(j, constant(lanes)))
            emit_epilogue(self.context, self.contract.body, known,
                          (self.contract.column.index, start),
                          lanes, vector_sums, mask)

        with ExitStack() as loops:
            known, row = tile.bindings((0,) * len(tile.extents())), constant(0)
            axes = self.cut.rows[self.cut.shape.axis :]
            for axis, extent in zip(axes, tile.extents(), strict=True):
                i = loops.enter_context(b.counted_loop(0, extent))
                known[axis.index] = b.add(known[axis.index], i)
                row = b.add(b.mul(row, constant(extent)), i)
            if full:
                with b.counted_loop(0, full) as j:
                    emit_vector(known, row, j, None)
            if valid % lanes:
                emit_vector(known, row, constant(full), b.first_lanes(valid % lanes, lanes))

    def _emit_along_rows(
        self, tile: PlacedTile, sums: Sums, column: ir.Value, valid: int, square: ir.Value,
        turning: ir.Value,
    ) -> None:
        """Emit the epilogue with lanes along the rows."""
        b, lanes, size = self.context.builder, self.cut.lanes, self.cut.type.size
        vectors, deltas = tile.shape(valid).vectors, tile.deltas()
        run = len(deltas) if self.flat else tile.extents()[-1]
        width, last = vectors * lanes * size, self.cut.rows[-1].index
        for k, value in enumerate(sums):
            store_vector(b, value, offset_bytes(b, turning, k * lanes * size), size)
        for first in range(0, len(deltas), run):
            bindings = tile.bindings(deltas[first])
            start = bindings.pop(last)
            for begin in range(first, first + run, lanes):
                count = min(lanes, first + run - begin)
                with b.counted_loop(0, vectors) as j:
                    source = offset_bytes(b, turning, multiply(b, j, lanes * size))
                    source = offset_bytes(b, source, begin * width)
                    transpose_into(b, self.cut.type, lanes, source, width, count, lanes, square)
                    done = b.mul(j, constant(lanes))
                    remaining = b.minimum_of(b.sub(constant(valid), done), constant(lanes))
                    row = b.add(start, constant(begin - first))
                    self._emit_columns(
                        bindings, b.add(column, done), remaining, (last, row), square, count
                    )

    def _emit_columns(self, bindings: Bindings, column: ir.Value, left: ir.Value,
                      row: tuple[Index, ir.Value], square: ir.Value, count: int) -> None:
        """The body for `left` columns, each with `count` rows in a line of `square`."""
        b, lanes = self.context.builder, self.cut.lanes
        mask = None if count == lanes else b.first_lanes(count, lanes)
        with b.counted_loop(0, left) as c:
            place = offset_bytes(b, square, b.mul(c, constant(lanes * self.cut.type.size)))
            vector_sums = load_vector(b, place, self.cut.type, lanes)
            known = {**bindings, self.contract.column.index: b.add(column, c)}
            emit_epilogue(self.context, self.contract.body, known, row, lanes, vector_sums, mask)
