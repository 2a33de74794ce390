"""Scan kernels: running reductions along an axis, the positions of running extremes, and paths of
CTC."""

from __future__ import annotations

import functools
import math
import operator

from ..loop_ir.expression_builder import Value, apply, compute_type, constant, where
from ..loop_ir.index_notation import (
    create_indices, load, nest, repeat, store, update, value_of, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Index, Kernel, ReduceOp, Scalar, Size, Statement, Type,
)


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
        x = load(self.x, place).cast(compute_type(self.type))
        total = Value(self.total)
        steps: list[Statement] = [
            update(self.total, x), store(self.y, place, total.cast(self.type))]
        if self.positions is None:
            return steps
        reached = (x == total) | ((x != x) & (total != total))
        here = where(reached, value_of(index), 0)
        return [*steps, update(self.last, here), store(self.positions, place, Value(self.last))]


def scan_rows(type: Type, fold: ReduceOp, positions: bool, count: int) -> Kernel:
    """Scan `count` rows at a time. Buffers: `count` of x, of y (and of positions), where buffer k
    begins at row k.

    Sizes: groups of `count` rows, columns, elements per group.
    """
    group, column = create_indices("group column")
    groups, columns, apart = sizes = [Size(name) for name in ("count", "columns", "apart")]
    scans = [_Scan(type, fold, positions, str(k)) for k in range(count)]
    steps = [step for s in scans for step in s.step(group * apart + column, column)]
    body = [*[start for s in scans for start in s.begin()], repeat(column, columns, *steps)]
    buffers = [s.x for s in scans] + [s.y for s in scans] \
        + [s.positions for s in scans if s.positions is not None]
    return Kernel("scan_rows", buffers, [nest(body, (group, groups))], sizes)


def scan_middle(type: Type, fold: ReduceOp, positions: bool) -> Kernel:
    """Scan down the rows of each plane, with columns in vector lanes. Buffers: x, y (positions).

    Sizes: planes, rows, columns, elements of a plane.
    """
    plane, row, column = create_indices("plane row column")
    planes, rows, columns, each = sizes = [Size(n) for n in ("planes", "rows", "columns", "each")]
    scan = _Scan(type, fold, positions)
    steps = scan.step(plane * each + row * columns + column, row)
    body = nest([*scan.begin(), repeat(row, rows, *steps)], (plane, planes), (column, columns))
    buffers = [scan.x, scan.y, *([] if scan.positions is None else [scan.positions])]
    return Kernel("scan_middle", buffers, [body], sizes)


def scan_scaled(type: Type) -> Kernel:
    """Linear recurrence y[r, 0] = x[r, 0], y[r, k] = y[r, k - 1] * scale[r, k] + x[r, k].

    Buffers: scale, x, y. Sizes: rows, columns, columns - 1.
    """
    row, column = create_indices("row column")
    rows, columns, rest = sizes = [Size(n) for n in ("rows", "columns", "rest")]
    scale, x, y = (Buffer(type, name) for name in ("scale", "x", "y"))
    first, before = row * columns, row * columns + column
    here = before + 1
    scaled = load(y, before) * load(scale, here) + load(x, here)
    body = nest([store(y, first, load(x, first)), repeat(column, rest, store(y, here, scaled))],
                (row, rows))
    return Kernel("scan_scaled", [scale, x, y], [body], sizes)


def scan_paths(type: Type) -> Kernel:
    """emitted, skip, y, after: the log probabilities of paths that stay at a position, step to the
    next or, where `skip` is 0 and not -inf, to the one after it.

    after[t, n, s] = log(exp(y[t, n, s]) + exp(y[t, n, s - 1]) + exp(y[t, n, s - 2] + skip[n, s]))
    + emitted[t, n, s]. `after` is y from its second time on. Both have two more positions in front,
    which hold -inf.

    Sizes: batch, positions, positions + 2, steps, elements of a time in emitted and in y.
    """
    sample, time, place = create_indices("sample time place")
    sizes = [Size(n) for n in ("batch", "positions", "padded", "steps", "emitted_step", "y_step")]
    batch, positions, padded, steps, emitted_step, y_step = sizes
    emitted, skip = Buffer(type, "emitted"), Buffer(type, "skip")
    y, after = Buffer(type, "y", aliased=True), Buffer(type, "after", aliased=True)
    before = time * y_step + sample * padded + place
    skipping, stepping, staying = (load(y, before + k) for k in range(3))
    skipping += load(skip, sample * positions + place)
    top = apply(Scalar.MAXIMUM, apply(Scalar.MAXIMUM, staying, stepping), skipping)
    top = where(top > -math.inf, top, constant(0.0, type))  # no path yet
    total = functools.reduce(operator.add, [
        apply(Scalar.EXP, value - top) for value in (staying, stepping, skipping)])
    value = apply(Scalar.LOG, total) + top \
        + load(emitted, time * emitted_step + sample * positions + place)
    inner = vectorize(place, positions, store(after, before + 2, value))
    body = nest([repeat(time, steps, inner)], (sample, batch))
    return Kernel("scan_paths", [emitted, skip, y, after], [body], sizes)
