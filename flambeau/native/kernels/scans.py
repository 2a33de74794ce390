"""Scan kernels: running reductions along an axis, the positions of running extremes, and paths of
CTC."""

from __future__ import annotations

import functools
import math
import operator

from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Constant, Index, IndexValue, Kernel, Load, Loop, LoopKind,
    ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)
from .expression_builder import Value, apply, compute_type, constant, where


class _Scan:
    """One scan: its buffers, its accumulators, and the statements of a step."""

    def __init__(self, type: Type, fold: ReduceOp, positions: bool, number: str = "") -> None:
        self.type, self.total = type, Accumulator(fold, compute_type(type))
        self.last = Accumulator(ReduceOp.MAXIMUM, Type.I64)
        self.x, self.y = Buffer(type, f"x{number}"), Buffer(type, f"y{number}")
        self.positions = Buffer(Type.I64, f"where{number}") if positions else None

    def begin(self) -> list[Statement]:
        """Return the statements that initialize the accumulators."""
        first_statements: list[Statement] = [Begin(self.total)]
        return first_statements if self.positions is None else [*first_statements, Begin(self.last)]

    def step(self, place: Affine, index: Index) -> list[Statement]:
        """Return the statements for the element at `place`, number `index` of the axis."""
        x = Value(Load(self.x, place)).cast(compute_type(self.type))
        total = Value(self.total)
        steps: list[Statement] = [
            Update(self.total, x.expression),
            Store(self.y, place, total.cast(self.type).expression),
        ]
        if self.positions is None:
            return steps
        reached = (x == total) | ((x != x) & (total != total))
        here = where(
            reached, Value(IndexValue(Affine(0, ((index, 1),)))), Value(Constant(Type.I64, 0))
        )
        return [*steps, Update(self.last, here.expression), Store(self.positions, place, self.last)]


def scan_rows(type: Type, fold: ReduceOp, positions: bool, count: int) -> Kernel:
    """Scan `count` rows at a time. Buffers: `count` of x, of y (and of positions), where buffer k
    begins at row k.

    Sizes: groups of `count` rows, columns, elements per group.
    """
    group, column = Index("group"), Index("column")
    sizes = [Size(name) for name in ("count", "columns", "apart")]
    place = Affine(0, ((group, sizes[2]), (column, 1)))
    scans = [_Scan(type, fold, positions, str(k)) for k in range(count)]
    body: list[Statement] = [statement for s in scans for statement in s.begin()]
    body.append(
        Loop(column, sizes[1], [statement for s in scans for statement in s.step(place, column)])
    )
    buffers = [s.x for s in scans] + [s.y for s in scans] \
        + [s.positions for s in scans if s.positions is not None]
    return Kernel("scan_rows", buffers, [Loop(group, sizes[0], body, LoopKind.PARALLEL)], sizes)


def scan_middle(type: Type, fold: ReduceOp, positions: bool) -> Kernel:
    """Scan down the rows of each plane, with columns in vector lanes. Buffers: x, y (positions).

    Sizes: planes, rows, columns, elements of a plane.
    """
    plane, row, column = Index("plane"), Index("row"), Index("column")
    planes, rows, columns, each = sizes = [Size(n) for n in ("planes", "rows", "columns", "each")]
    scan = _Scan(type, fold, positions)
    place = Affine(0, ((plane, each), (row, columns), (column, 1)))
    body: list[Statement] = [*scan.begin(), Loop(row, rows, scan.step(place, row))]
    inner = Loop(column, columns, body, LoopKind.PARALLEL)
    buffers = [scan.x, scan.y, *([] if scan.positions is None else [scan.positions])]
    return Kernel("scan_middle", buffers, [Loop(plane, planes, [inner], LoopKind.PARALLEL)], sizes)


def scan_scaled(type: Type) -> Kernel:
    """Linear recurrence y[r, 0] = x[r, 0], y[r, k] = y[r, k - 1] * scale[r, k] + x[r, k].

    Buffers: scale, x, y. Sizes: rows, columns, columns - 1.
    """
    row, column = Index("row"), Index("column")
    rows, columns, rest = sizes = [Size(n) for n in ("rows", "columns", "rest")]
    scale, x, y = (Buffer(type, name) for name in ("scale", "x", "y"))
    first = Affine(0, ((row, columns),))
    before, here = (Affine(k, ((row, columns), (column, 1))) for k in (0, 1))
    scaled = Value(Load(y, before)) * Value(Load(scale, here)) + Value(Load(x, here))
    body: list[Statement] = [
        Store(y, first, Load(x, first)), Loop(column, rest, [Store(y, here, scaled.expression)]),
    ]
    return Kernel("scan_scaled", [scale, x, y], [Loop(row, rows, body, LoopKind.PARALLEL)], sizes)


def scan_paths(type: Type) -> Kernel:
    """emitted, skip, y, after: the log probabilities of paths that stay at a position, step to the
    next or, where `skip` is 0 and not -inf, to the one after it.

    after[t, n, s] = log(exp(y[t, n, s]) + exp(y[t, n, s - 1]) + exp(y[t, n, s - 2] + skip[n, s]))
    + emitted[t, n, s]. `after` is y from its second time on. Both have two more positions in front,
    which hold -inf.

    Sizes: batch, positions, positions + 2, steps, elements of a time in emitted and in y.
    """
    sample, time, place = Index("sample"), Index("time"), Index("place")
    sizes = [Size(n) for n in ("batch", "positions", "padded", "steps", "emitted_step", "y_step")]
    batch, positions, padded, steps, emitted_step, y_step = sizes
    emitted, skip = Buffer(type, "emitted"), Buffer(type, "skip")
    y, after = Buffer(type, "y", aliased=True), Buffer(type, "after", aliased=True)
    there = Affine(0, ((time, emitted_step), (sample, positions), (place, 1)))
    skipping, stepping, staying = (
        Value(Load(y, Affine(k, ((time, y_step), (sample, padded), (place, 1))))) for k in range(3))
    skipping += Value(Load(skip, Affine(0, ((sample, positions), (place, 1)))))
    top = apply(Scalar.MAXIMUM, apply(Scalar.MAXIMUM, staying, stepping), skipping)
    top = where(top > -math.inf, top, constant(0.0, type))  # no path yet
    total = functools.reduce(operator.add, [
        apply(Scalar.EXP, value - top) for value in (staying, stepping, skipping)])
    value = apply(Scalar.LOG, total) + top + Value(Load(emitted, there))
    here = Affine(2, ((time, y_step), (sample, padded), (place, 1)))
    step = Store(after, here, value.expression)
    inner = Loop(place, positions, [step], LoopKind.VECTORIZED)
    body: list[Statement] = [Loop(sample, batch, [Loop(time, steps, [inner])], LoopKind.PARALLEL)]
    return Kernel("scan_paths", [emitted, skip, y, after], body, sizes)
