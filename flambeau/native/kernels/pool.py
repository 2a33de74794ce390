"""Pooling kernels of any size: maxima and sums of windows, rows innermost in memory.

Tables locate the windows: for each result row the rows of x that it reads, for each column where
its windows begin. One kernel thus serves one to three spatial axes, adaptive windows, and gradients
of averages. A result row takes two steps: rows of x are reduced to one in the thread's local
memory, then its columns are reduced by windows. Several rows are done at a time, because
just-stored data cannot be reloaded at other offsets at once. pool_nhwc.py serves channels-last.
"""

from __future__ import annotations

import functools
from functools import cache
from math import inf
from typing import NamedTuple

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, If, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, SizeValue, Statement, Store, Type, Update,
)
from ..target.cost_model import MAX_POOL_STRIP_ELEMENTS, MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES

NO_PLACE = 1 << 30  # beyond every position in an image


class PoolSizes(NamedTuple):
    """The sizes of a kernel, in its order.

    The result is `images` of `height` rows of `length` columns, computed in `groups` of `rows`
    rows and `blocks` of `block` columns, each `vectors` vectors. A window has `taps` rows and
    `window` columns, `apart` columns from each other. x has `width` columns, of which a block
    reads `cells` vectors. Strides: `x_image` and `y_image` between images; `y_group` between row
    groups in the result and `group_taps` in the table; `padded` between blocks in their table;
    in thread-local memory, `pitch` between rows of x and `padded` between rows of the result.
    """

    images: int
    groups: int
    blocks: int
    rows: int
    height: int
    taps: int
    window: int
    cells: int
    width: int
    vectors: int
    length: int
    block: int
    apart: int
    x_image: int
    y_image: int
    y_group: int
    group_taps: int
    padded: int
    pitch: int


def lanes_of(step: int | None) -> int:
    """Return how many columns are computed at a time: fewer if they are gathered."""
    return POOLED_LANES if step is not None else POOLED_LANES // 2


def number(value: int, type: Type = Type.I64) -> Constant:
    """Return an integer constant."""
    return Constant(type, value)


def and_conditions(*conditions: Expression) -> Expression:
    """Whether all conditions hold."""
    return functools.reduce(lambda a, b: Apply(Scalar.AND, (a, b), Type.BOOL), conditions)


def compare(comparison: Scalar, a: Expression, b: Expression) -> Expression:
    """Return a comparison."""
    return Apply(comparison, (a, b), Type.BOOL)


def cast(value: Expression, type: Type) -> Expression:
    """Convert a number to another type."""
    return Apply(Scalar.CAST, (value,), type)


def first_of_equals(value: Expression, top: Expression, place: Expression) -> Expression:
    """Return `place` if the value equals `top` or is NaN, else NO_PLACE. The least place wins."""
    hit = Apply(Scalar.OR, (compare(Scalar.EQ, value, top), compare(Scalar.NE, value, value)),
                Type.BOOL)
    return Apply(Scalar.WHERE, (hit, place, number(NO_PLACE, Type.I32)), Type.I32)


class _StripNest:
    """The loop nest over result rows and column blocks: loops, positions and bounds of x.

    `step`: distance between windows in a row of x, 1 or 2; None if tables give it.
    """

    def __init__(self, type: Type, step: int | None) -> None:
        self.type, self.step, self.lanes = type, step, lanes_of(step)
        bounds = {"taps": MAX_POOL_WINDOW_EXTENT, "window": MAX_POOL_WINDOW_EXTENT}
        self.sizes = {name: Size(name, bounds.get(name)) for name in PoolSizes._fields}
        self.image, self.group = Index("image"), Index("group")
        self.block, self.r = Index("block"), Index("r")
        self.v, self.lane, self.i, self.j = (Index(name) for name in ("v", "lane", "i", "j"))
        self.x, self.y = Buffer(type, "x"), Buffer(type, "y")
        self.rows, self.first = Buffer(Type.I64, "rows"), Buffer(Type.I64, "first")
        self.starts, self.counts = Buffer(Type.I32, "starts"), Buffer(Type.I32, "counts")

    @property
    def tables(self) -> list[Buffer]:
        """The rows of x in each result row's windows (-1: none), the first column of x for each
        block, and for each column its window's start relative to that and its width. The last two
        are used only if `step` is None."""
        return [self.rows, self.first, self.starts, self.counts]

    def kernel(self, name: str, buffers: list[Buffer], body: Statement) -> Kernel:
        return Kernel(name, buffers, [body], list(self.sizes.values()))

    def at(self, *terms: tuple[Index, Extent | str]) -> Affine:
        sized_terms = [(i, self.sizes[s] if isinstance(s, str) else s) for i, s in terms]
        return Affine(0, tuple(sized_terms))

    def rows_of_group(self, statement: Statement) -> Statement:
        """Run a statement for all rows of a group."""
        number_of = IndexValue(self.at((self.group, "rows"), (self.r, 1)))
        is_inside = compare(Scalar.LT, number_of, SizeValue(self.sizes["height"]))
        return Loop(self.r, self.sizes["rows"], [If(is_inside, [statement])])

    def each_row(self, *steps: Statement) -> Statement:
        """Loop over all rows of the result, split among threads."""
        body = list(steps)
        for index, extent in ((self.block, "blocks"), (self.group, "groups"),
                              (self.image, "images")):
            body = [Loop(index, self.sizes[extent], body, LoopKind.PARALLEL)]
        return body[0]

    def columns(self, extent: str, body: list[Statement]) -> Statement:
        """Loop over columns, then a group's rows, to reuse column masks."""
        rows = self.rows_of_group(Loop(self.lane, self.lanes, body, LoopKind.VECTORIZED))
        return Loop(self.v, self.sizes[extent], [rows])

    def taps(self, body: list[Statement]) -> Statement:
        """Loop over the rows of a window."""
        return Loop(self.i, self.sizes["taps"], body)

    def window(self, body: list[Statement]) -> Statement:
        """Loop over the columns of a window."""
        return Loop(self.j, self.sizes["window"], body)

    def strip(self, step: int = 1) -> list[tuple[Index, Extent | str]]:
        """Return the terms of a column in its block."""
        return [(self.v, self.lanes * step), (self.lane, step)]

    @property
    def strip_position(self) -> Affine:
        """The position of a column of x in local memory."""
        return self.at((self.r, "pitch"), *self.strip())

    @property
    def row(self) -> Load:
        """The start of a window's row in its image."""
        return Load(self.rows, self.at((self.group, "group_taps"), (self.r, "taps"), (self.i, 1)))

    @property
    def column(self) -> Expression:
        """The first column of x that the block reads."""
        return Load(self.first, self.at((self.block, 1)))

    @property
    def inside(self) -> Expression:
        """Whether a column lies inside x."""
        position = IndexValue(self.at(*self.strip()))
        low = Apply(Scalar.NEG, (self.column,), Type.I64)
        high = Apply(Scalar.SUB, (SizeValue(self.sizes["width"]), self.column), Type.I64)
        return and_conditions(compare(Scalar.GE, position, low), compare(Scalar.LT, position, high))

    def input_element(self, mask: Expression, buffer: Buffer | None = None) -> Load:
        """Return the element of x, or of a buffer of its shape, in a window's row."""
        base = self.at((self.image, "x_image"), *self.strip())
        return Load(buffer or self.x, base, ((self.row, 1), (self.column, 1)), mask)

    def cell(self, local: Buffer) -> tuple[Load, Expression | None]:
        """Return the reduced row's element under a window column, and whether it exists."""
        if self.step is not None:
            place = self.at((self.r, "pitch"), *self.strip(self.step), (self.j, "apart"))
            return Load(local, place), None
        known = self.at((self.block, "padded"), *self.strip())
        mask = compare(Scalar.LT, cast(IndexValue(self.at((self.j, 1))), Type.I32),
                       Load(self.counts, known))
        start = cast(Load(self.starts, known), Type.I64)
        place = self.at((self.r, "pitch"), (self.j, "apart"))
        return Load(local, place, ((start, 1),), mask), mask

    @property
    def place(self) -> Affine:
        """The position of a result element."""
        return self.at((self.image, "y_image"), (self.group, "y_group"), (self.r, "length"),
                       (self.block, "block"), *self.strip())

    @property
    def column_exists(self) -> Expression:
        """Whether a column of the result exists."""
        position = IndexValue(self.at((self.block, "block"), *self.strip()))
        return compare(Scalar.LT, position, SizeValue(self.sizes["length"]))

    def local(self, name: str, type: Type | None = None) -> Buffer:
        return Buffer(type or self.type, name, MAX_POOL_STRIP_ELEMENTS + 3 * POOLED_LANES)

    def or_lowest(self, mask: Expression | None, value: Expression) -> Expression:
        """Return a value, or -inf if it does not exist."""
        if mask is None:
            return value
        return Apply(Scalar.WHERE, (mask, value, Constant(self.type, -inf)), self.type)


@cache
def sums(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, by_row, by_column, y: window sums divided by both divisors."""
    s = _StripNest(type, step)
    cells = s.local("cells")
    by_row, by_column = Buffer(type, "by_row"), Buffer(type, "by_column")
    down, across = (
        Accumulator(ReduceOp.SUM, type, "down"),
        Accumulator(ReduceOp.SUM, type, "across"),
    )
    is_inside = and_conditions(compare(Scalar.GE, s.row, number(0)), s.inside)
    fold_rows: list[Statement] = [
        Begin(down),
        s.taps([Update(down, s.input_element(is_inside))]),
        Store(cells, s.strip_position, down),
    ]
    row_of = Load(by_row, s.at((s.group, "rows"), (s.r, 1)))
    column_of = Load(by_column, s.at((s.block, "padded"), *s.strip()))
    divisor = Apply(Scalar.MUL, (row_of, column_of), type)
    value = Apply(Scalar.DIV, (across, divisor), type)
    fold_columns: list[Statement] = [
        Begin(across), s.window([Update(across, s.cell(cells)[0])]),
        Store(s.y, s.place, value, mask=s.column_exists),
    ]
    body = s.each_row(s.columns("cells", fold_rows), s.columns("vectors", fold_columns))
    return s.kernel("pool_sums", [s.x, *s.tables, by_row, by_column, s.y], body)


@cache
def maxima(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, y: window maxima; NaN is greatest. Every row in the table must exist."""
    s = _StripNest(type, step)
    cells = s.local("cells")
    down = Accumulator(ReduceOp.MAXIMUM, type, "down")
    across = Accumulator(ReduceOp.MAXIMUM, type, "across")
    (value, mask), inside = s.cell(cells), s.inside
    body = s.each_row(
        s.columns("cells", [
            Begin(down), s.taps([Update(down, s.or_lowest(inside, s.input_element(inside)))]),
            Store(cells, s.strip_position, down),
        ]),
        s.columns("vectors", [
            Begin(across), s.window([Update(across, s.or_lowest(mask, value))]),
            Store(s.y, s.place, across, mask=s.column_exists),
        ]),
    )
    return s.kernel("pool_maxima", [s.x, *s.tables, s.y], body)


def _reduce_columns(s: _StripNest, cells: Buffer, rows: Buffer) -> Statement:
    """Compute each column's maximum, and the first row of x that has it."""
    top, row = (
        Accumulator(ReduceOp.MAXIMUM, s.type, "top"),
        Accumulator(ReduceOp.MINIMUM, Type.I32, "row"),
    )
    inside = s.inside
    value = s.or_lowest(inside, s.input_element(inside))
    place = first_of_equals(value, top, cast(s.row, Type.I32))
    nowhere = number(NO_PLACE, Type.I32)
    return s.columns("cells", [
        Begin(top), s.taps([Update(top, value)]), Begin(row), s.taps([Update(row, place)]),
        Store(cells, s.strip_position, top),
        Store(rows, s.strip_position, Apply(Scalar.WHERE, (inside, row, nowhere), Type.I32)),
    ])


def _reduce_windows(
    s: _StripNest, cells: Buffer, rows: Buffer, top: Accumulator, place: Accumulator,
    then: list[Statement]
) -> Statement:
    """Compute each window's maximum, and its first place in the image's order; run `then`."""
    load, mask = s.cell(cells)
    value = s.or_lowest(mask, load)
    row = Load(rows, load.at, load.indirect, mask)
    if s.step is not None:
        column: Expression = IndexValue(s.at(*s.strip(s.step), (s.j, "apart")))
    else:
        known = s.at((s.block, "padded"), *s.strip())
        column = Apply(Scalar.ADD, (cast(Load(s.starts, known), Type.I64),
                                    IndexValue(s.at((s.j, "apart")))), Type.I64)
    column = Apply(Scalar.ADD, (column, s.column), Type.I64)
    position: Expression = Apply(Scalar.ADD, (row, cast(column, Type.I32)), Type.I32)
    if mask is not None:
        position = Apply(Scalar.WHERE, (mask, position, number(NO_PLACE, Type.I32)), Type.I32)
    return s.columns("vectors", [
        Begin(top), s.window([Update(top, value)]),
        Begin(place), s.window([Update(place, first_of_equals(value, top, position))]),
        *then,
    ])


@cache
def places(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, y, places (I64): maxima, and their places in the flattened image."""
    s, where = _StripNest(type, step), Buffer(Type.I64, "places")
    cells, rows = s.local("cells"), s.local("rows", Type.I32)
    top, place = (Accumulator(ReduceOp.MAXIMUM, type, "top"),
                  Accumulator(ReduceOp.MINIMUM, Type.I32, "place"))
    then: list[Statement] = [
        Store(s.y, s.place, top, mask=s.column_exists),
        Store(where, s.place, cast(place, Type.I64), mask=s.column_exists),
    ]
    across = _reduce_windows(s, cells, rows, top, place, then)
    body = s.each_row(_reduce_columns(s, cells, rows), across)
    return s.kernel("pool_places", [s.x, *s.tables, s.y, where], body)


@cache
def maxima_with_tangents(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, t, y, yt: maxima, and the elements of t at their places.

    An element that replaces the maximum brings its element of t along.
    """
    s, t, yt = _StripNest(type, step), Buffer(type, "t"), Buffer(type, "yt")
    cells, rows, cells_t = s.local("cells"), s.local("rows", Type.I32), s.local("cells_t")
    inside = s.inside
    begin, update, (top, chosen, row) = _follow_maximum(
        s.or_lowest(inside, s.input_element(inside)), s.input_element(inside, t),
        _mask_place(inside, cast(s.row, Type.I32)))
    down = s.columns("cells", [
        *begin, s.taps(update), Store(cells, s.strip_position, top),
        Store(cells_t, s.strip_position, chosen), Store(rows, s.strip_position, row),
    ])
    load, mask = s.cell(cells)
    of_t, of_rows = (Load(b, load.at, load.indirect, mask) for b in (cells_t, rows))
    begin, update, (top, chosen, row) = _follow_maximum(
        s.or_lowest(mask, load), of_t, _mask_place(mask, of_rows))
    across = s.columns("vectors", [
        *begin, s.window(update), Store(s.y, s.place, top, mask=s.column_exists),
        Store(yt, s.place, chosen, mask=s.column_exists),
    ])
    return s.kernel("pool_maxima_with_tangents", [s.x, *s.tables, t, s.y, yt],
                    s.each_row(down, across))


def _follow_maximum(
    value: Expression, companion: Expression, row: Expression
) -> tuple[list[Statement], list[Statement], tuple[Accumulator, ...]]:
    """Return statements that begin and update a maximum, its companion and its row; and those.

    Of equal values the one in the earliest row stays, of these the first. The first NaN stays.
    """
    top, chosen, position = targets = tuple([
        Accumulator(ReduceOp.LAST, v.type, name)
        for v, name in ((value, "top"), (companion, "chosen"), (row, "at"))])
    starts = Constant(top.type, -inf), Constant(chosen.type, 0.0), number(NO_PLACE, Type.I32)
    above = Apply(Scalar.NOT, (compare(Scalar.LE, value, top),), Type.BOOL)
    replaces = Apply(Scalar.OR, (
        and_conditions(above, compare(Scalar.EQ, top, top)),
        and_conditions(compare(Scalar.EQ, value, top), compare(Scalar.LT, row, position))),
        Type.BOOL)
    begin: list[Statement] = [Begin(a, start) for a, start in zip(targets, starts, strict=True)]
    decision = Accumulator(ReduceOp.ANY, Type.BOOL, "replaces")  # before the targets change
    update: list[Statement] = [Begin(decision, replaces)]
    update += [Update(a, Apply(Scalar.WHERE, (decision, v, a), a.type))
               for a, v in zip(targets, (value, companion, row), strict=True)]
    return begin, update, targets


def _mask_place(mask: Expression | None, place: Expression) -> Expression:
    """Return a place, or NO_PLACE if it does not exist."""
    if mask is None:
        return place
    return Apply(Scalar.WHERE, (mask, place, number(NO_PLACE, Type.I32)), Type.I32)


@cache
def maxima_backward(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, gy, gx: add each window's gradient at the place of its maximum.

    Images are split among threads, since windows of one image may overlap.
    """
    s, gx = _StripNest(type, step), Buffer(type, "gx")
    cells, rows = s.local("cells"), s.local("rows", Type.I32)
    winners = s.local("found", Type.I32)
    top, place = (Accumulator(ReduceOp.MAXIMUM, type, "top"),
                  Accumulator(ReduceOp.MINIMUM, Type.I32, "place"))
    z, w = Index("z"), Index("w")
    zero = Store(gx, s.at((s.image, "x_image"), (z, 1)), Constant(type, 0.0))
    clear = Loop(z, s.sizes["x_image"], [zero], LoopKind.VECTORIZED)
    keep: list[Statement] = [Store(winners, s.at((s.r, "padded"), *s.strip()), place)]
    share = s.at((s.image, "y_image"), (s.group, "y_group"), (s.r, "length"),
                 (s.block, "block"), (w, 1))
    exists = compare(Scalar.LT, IndexValue(s.at((s.block, "block"), (w, 1))),
                     SizeValue(s.sizes["length"]))
    position = cast(Load(winners, s.at((s.r, "padded"), (w, 1))), Type.I64)
    spread = Loop(w, s.sizes["block"], [Store(
        gx, s.at((s.image, "x_image")), Load(s.y, share, mask=exists), ((position, 1),),
        mask=exists, add=True)])
    body: list[Statement] = [
        _reduce_columns(s, cells, rows),
        _reduce_windows(s, cells, rows, top, place, keep),
        s.rows_of_group(spread),
    ]
    for index, extent in ((s.group, "groups"), (s.block, "blocks")):
        body = [Loop(index, s.sizes[extent], body)]
    nest = Loop(s.image, s.sizes["images"], [clear, *body], LoopKind.PARALLEL)
    return s.kernel("pool_maxima_backward", [s.x, *s.tables, s.y, gx], nest)
