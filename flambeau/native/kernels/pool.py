"""Pooling kernels of any size: maxima and sums of windows, rows innermost in memory.

Tables locate the windows: for each result row the rows of x that it reads, for each column where
its windows begin. One kernel thus serves one to three spatial axes, adaptive windows, and gradients
of averages. A result row takes two steps: rows of x are reduced to one in the thread's local
memory, then its columns are reduced by windows. Several rows are done at a time, because
just-stored data cannot be reloaded at other offsets at once. pool_nhwc.py serves channels-last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Generic, NamedTuple, TypeVar

from ..loop_ir.expression_builder import Value, constant, where
from ..loop_ir.index_notation import (
    create_indices, create_sizes, load, nest, repeat, store, update, value_of, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, If, Kernel, LoopKind, ReduceOp, Size, Statement, Store,
    Type,
)
from ..target.cost_model import MAX_POOL_STRIP_ELEMENTS, MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES, lanes_of

NO_PLACE = 1 << 30  # beyond every position in an image

T = TypeVar("T", int, Size)


class PoolSizes(NamedTuple, Generic[T]):
    """The sizes of a kernel, in its order.

    The result is `images` of `height` rows of `length` columns, computed in `groups` of `rows`
    rows and `blocks` of `block` columns, each `vectors` vectors. A window has `taps` rows and
    `window` columns, `apart` columns from each other. x has `width` columns, of which a block
    reads `cells` vectors. Strides: `x_image` and `y_image` between images; `y_group` between row
    groups in the result and `group_taps` in the table; `padded` between blocks in their table;
    in thread-local memory, `pitch` between rows of x and `padded` between rows of the result.
    """

    images: T
    groups: T
    blocks: T
    rows: T
    height: T
    taps: T
    window: T
    cells: T
    width: T
    vectors: T
    length: T
    block: T
    apart: T
    x_image: T
    y_image: T
    y_group: T
    group_taps: T
    padded: T
    pitch: T


def first_of_equals(value: Value, top: Value, place: Value) -> Value:
    """Return `place` if the value equals `top` or is NaN, else NO_PLACE. The least place wins."""
    return where((value == top) | (value != value), place, NO_PLACE)


class _StripNest:
    """The loop nest over result rows and column blocks: loops, positions and bounds of x.

    `step`: distance between windows in a row of x, 1 or 2; None if tables give it.
    """

    def __init__(self, type: Type, step: int | None) -> None:
        self.type, self.step, self.lanes = type, step, lanes_of(step)
        self.sizes: PoolSizes[Size] = create_sizes(
            PoolSizes, {"taps": MAX_POOL_WINDOW_EXTENT, "window": MAX_POOL_WINDOW_EXTENT})
        self.image, self.group, self.block, self.r, self.v, self.lane, self.i, self.j = \
            create_indices("image group block r v lane i j")
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
        return Kernel(name, buffers, [body], list(self.sizes))

    def rows_of_group(self, statement: Statement) -> Statement:
        """Run a statement for all rows of a group."""
        z = self.sizes
        exists = value_of(self.group * z.rows + self.r) < value_of(z.height)
        return repeat(self.r, z.rows, If(exists.expression, [statement]))

    def each_row(self, *steps: Statement) -> Statement:
        """Loop over all rows of the result, split among threads."""
        z = self.sizes
        return nest(steps, (self.image, z.images), (self.group, z.groups), (self.block, z.blocks))

    def columns(self, extent: Size, body: Sequence[Statement]) -> Statement:
        """Loop over columns, then a group's rows, to reuse column masks."""
        return repeat(self.v, extent, self.rows_of_group(vectorize(self.lane, self.lanes, *body)))

    def taps(self, body: Sequence[Statement]) -> Statement:
        """Loop over the rows of a window."""
        return repeat(self.i, self.sizes.taps, *body)

    def window(self, body: Sequence[Statement]) -> Statement:
        """Loop over the columns of a window."""
        return repeat(self.j, self.sizes.window, *body)

    def strip(self, step: int = 1) -> Affine:
        """Return the position of a column in its block."""
        return self.v * (self.lanes * step) + self.lane * step

    @property
    def strip_position(self) -> Affine:
        """The position of a column of x in local memory."""
        return self.r * self.sizes.pitch + self.strip()

    @property
    def block_column(self) -> Affine:
        """The position of a column in the tables of blocks."""
        return self.block * self.sizes.padded + self.strip()

    @property
    def row(self) -> Value:
        """The start of a window's row in its image."""
        z = self.sizes
        return load(self.rows, self.group * z.group_taps + self.r * z.taps + self.i)

    @property
    def column(self) -> Value:
        """The first column of x that the block reads."""
        return load(self.first, self.block)

    @property
    def inside(self) -> Value:
        """Whether a column lies inside x."""
        position = value_of(self.strip())
        return (position >= -self.column) & (position < value_of(self.sizes.width) - self.column)

    def input_element(self, mask: Value, buffer: Buffer | None = None) -> Value:
        """Return the element of x, or of a buffer of its shape, in a window's row."""
        base = self.image * self.sizes.x_image + self.strip()
        return load(buffer or self.x, base, (self.row, 1), (self.column, 1), mask=mask)

    def cell_mask(self) -> Value | None:
        """Whether a window column exists; None if all do."""
        if self.step is not None:
            return None
        return value_of(self.j * 1).cast(Type.I32) < load(self.counts, self.block_column)

    def cell(self, local: Buffer, mask: Value | None) -> Value:
        """Return the reduced row's element under a window column."""
        z = self.sizes
        if self.step is not None:
            return load(local, self.r * z.pitch + self.strip(self.step) + self.j * z.apart)
        start = load(self.starts, self.block_column).cast(Type.I64)
        return load(local, self.r * z.pitch + self.j * z.apart, (start, 1), mask=mask)

    @property
    def place(self) -> Affine:
        """The position of a result element."""
        z = self.sizes
        return self.image * z.y_image + self.group * z.y_group + self.r * z.length \
            + self.block * z.block + self.strip()

    @property
    def column_exists(self) -> Value:
        """Whether a column of the result exists."""
        z = self.sizes
        return value_of(self.block * z.block + self.strip()) < value_of(z.length)

    def local(self, name: str, type: Type | None = None) -> Buffer:
        return Buffer(type or self.type, name, MAX_POOL_STRIP_ELEMENTS + 3 * POOLED_LANES)

    def store_result(self, y: Buffer, value: Value) -> Store:
        """Store a result of a window, if it exists."""
        return store(y, self.place, value, mask=self.column_exists)

    def or_lowest(self, mask: Value | None, value: Value) -> Value:
        """Return a value, or -inf if it does not exist."""
        return value if mask is None else where(mask, value, -inf)


@cache
def sums(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, by_row, by_column, y: window sums divided by both divisors."""
    s = _StripNest(type, step)
    z, cells = s.sizes, s.local("cells")
    by_row, by_column = Buffer(type, "by_row"), Buffer(type, "by_column")
    down, across = (Accumulator(ReduceOp.SUM, type, name) for name in ("down", "across"))
    is_inside = (s.row >= 0) & s.inside
    divisor = load(by_row, s.group * z.rows + s.r) * load(by_column, s.block_column)
    body = s.each_row(
        s.columns(z.cells, [
            Begin(down), s.taps([update(down, s.input_element(is_inside))]),
            store(cells, s.strip_position, Value(down)),
        ]),
        s.columns(z.vectors, [
            Begin(across), s.window([update(across, s.cell(cells, s.cell_mask()))]),
            s.store_result(s.y, Value(across) / divisor),
        ]),
    )
    return s.kernel("pool_sums", [s.x, *s.tables, by_row, by_column, s.y], body)


@cache
def maxima(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, y: window maxima; NaN is greatest. Every row in the table must exist."""
    s = _StripNest(type, step)
    z, cells = s.sizes, s.local("cells")
    down, across = (Accumulator(ReduceOp.MAXIMUM, type, name) for name in ("down", "across"))
    mask, inside = s.cell_mask(), s.inside
    body = s.each_row(
        s.columns(z.cells, [
            Begin(down), s.taps([update(down, s.or_lowest(inside, s.input_element(inside)))]),
            store(cells, s.strip_position, Value(down)),
        ]),
        s.columns(z.vectors, [
            Begin(across), s.window([update(across, s.or_lowest(mask, s.cell(cells, mask)))]),
            s.store_result(s.y, Value(across)),
        ]),
    )
    return s.kernel("pool_maxima", [s.x, *s.tables, s.y], body)


def _reduce_columns(s: _StripNest, cells: Buffer, rows: Buffer) -> Statement:
    """Compute each column's maximum, and the first row of x that has it."""
    top = Accumulator(ReduceOp.MAXIMUM, s.type, "top")
    row = Accumulator(ReduceOp.MINIMUM, Type.I32, "row")
    inside = s.inside
    value = s.or_lowest(inside, s.input_element(inside))
    place = first_of_equals(value, Value(top), s.row.cast(Type.I32))
    return s.columns(s.sizes.cells, [
        Begin(top), s.taps([update(top, value)]), Begin(row), s.taps([update(row, place)]),
        store(cells, s.strip_position, Value(top)),
        store(rows, s.strip_position, _mask_place(inside, Value(row))),
    ])


def _reduce_windows(
    s: _StripNest, cells: Buffer, rows: Buffer, top: Accumulator, place: Accumulator,
    then: list[Statement]
) -> Statement:
    """Compute each window's maximum, and its first place in the image's order; run `then`."""
    mask, z = s.cell_mask(), s.sizes
    value, row = s.or_lowest(mask, s.cell(cells, mask)), s.cell(rows, mask)
    if s.step is not None:
        column = value_of(s.strip(s.step) + s.j * z.apart)
    else:
        column = load(s.starts, s.block_column).cast(Type.I64) + value_of(s.j * z.apart)
    position = _mask_place(mask, row + (column + s.column).cast(Type.I32))
    return s.columns(z.vectors, [
        Begin(top), s.window([update(top, value)]), Begin(place),
        s.window([update(place, first_of_equals(value, Value(top), position))]), *then,
    ])


def _mask_place(mask: Value | None, place: Value) -> Value:
    """Return a place, or NO_PLACE if it does not exist."""
    return place if mask is None else where(mask, place, NO_PLACE)


def _create_winners(type: Type) -> tuple[Accumulator, Accumulator]:
    """Return the accumulators of a window's maximum and of its place."""
    return (Accumulator(ReduceOp.MAXIMUM, type, "top"),
            Accumulator(ReduceOp.MINIMUM, Type.I32, "place"))


@cache
def places(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, y, places (I64): maxima, and their places in the flattened image."""
    s, results = _StripNest(type, step), Buffer(Type.I64, "places")
    cells, rows = s.local("cells"), s.local("rows", Type.I32)
    top, place = _create_winners(type)
    then: list[Statement] = [s.store_result(s.y, Value(top)),
                             s.store_result(results, Value(place).cast(Type.I64))]
    across = _reduce_windows(s, cells, rows, top, place, then)
    body = s.each_row(_reduce_columns(s, cells, rows), across)
    return s.kernel("pool_places", [s.x, *s.tables, s.y, results], body)


@cache
def maxima_with_tangents(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, t, y, yt: maxima, and the elements of t at their places.

    An element that replaces the maximum brings its element of t along.
    """
    s, t, yt = _StripNest(type, step), Buffer(type, "t"), Buffer(type, "yt")
    cells, rows, cells_t = s.local("cells"), s.local("rows", Type.I32), s.local("cells_t")
    inside = s.inside
    begin, replace, (top, chosen, row) = _follow_maximum(
        s.or_lowest(inside, s.input_element(inside)), s.input_element(inside, t),
        _mask_place(inside, s.row.cast(Type.I32)))
    down = s.columns(s.sizes.cells, [
        *begin, s.taps(replace), store(cells, s.strip_position, top),
        store(cells_t, s.strip_position, chosen), store(rows, s.strip_position, row),
    ])
    mask = s.cell_mask()
    value, of_t, of_rows = (s.cell(b, mask) for b in (cells, cells_t, rows))
    begin, replace, (top, chosen, row) = _follow_maximum(
        s.or_lowest(mask, value), of_t, _mask_place(mask, of_rows))
    across = s.columns(s.sizes.vectors, [
        *begin, s.window(replace), s.store_result(s.y, top), s.store_result(yt, chosen)])
    return s.kernel("pool_maxima_with_tangents", [s.x, *s.tables, t, s.y, yt],
                    s.each_row(down, across))


def _follow_maximum(
    value: Value, companion: Value, row: Value
) -> tuple[list[Statement], list[Statement], tuple[Value, ...]]:
    """Return statements that begin and update a maximum, its companion and its row; and those.

    Of equal values the one in the earliest row stays, of these the first. The first NaN stays.
    """
    targets = [Accumulator(ReduceOp.LAST, v.type, name)
               for v, name in ((value, "top"), (companion, "chosen"), (row, "at"))]
    top, _, position = values = tuple([Value(target) for target in targets])
    starts = (-inf, 0.0, NO_PLACE)
    replaces = (~(value <= top) & (top == top)) | ((value == top) & (row < position))
    begin: list[Statement] = [
        Begin(a, constant(start, a.type).expression)
        for a, start in zip(targets, starts, strict=True)]
    decision = Accumulator(ReduceOp.ANY, Type.BOOL, "replaces")  # before the targets change
    replace: list[Statement] = [Begin(decision, replaces.expression)]
    replace += [update(a, where(Value(decision), v, Value(a)))
                for a, v in zip(targets, (value, companion, row), strict=True)]
    return begin, replace, values


@cache
def maxima_backward(type: Type, step: int | None) -> Kernel:
    """Buffers x, tables, gy, gx: add each window's gradient at the place of its maximum.

    Images are split among threads, since windows of one image may overlap.
    """
    s, gx = _StripNest(type, step), Buffer(type, "gx")
    z, (c, w) = s.sizes, create_indices("z w")
    cells, rows, winners = s.local("cells"), s.local("rows", Type.I32), s.local("found", Type.I32)
    top, place = _create_winners(type)
    image = s.image * z.x_image
    clear = vectorize(c, z.x_image, store(gx, image + c, constant(0.0, type)))
    keep: list[Statement] = [store(winners, s.r * z.padded + s.strip(), Value(place))]
    share = s.image * z.y_image + s.group * z.y_group + s.r * z.length + s.block * z.block + w
    exists = value_of(s.block * z.block + w) < value_of(z.length)
    position = load(winners, s.r * z.padded + w).cast(Type.I64)
    spread = repeat(w, z.block, store(
        gx, image, load(s.y, share, mask=exists), (position, 1), mask=exists, add=True))
    rows_of_image = nest(
        [_reduce_columns(s, cells, rows), _reduce_windows(s, cells, rows, top, place, keep),
         s.rows_of_group(spread)],
        (s.block, z.blocks), (s.group, z.groups), kind=LoopKind.SERIAL)
    body = nest([clear, rows_of_image], (s.image, z.images))
    return s.kernel("pool_maxima_backward", [s.x, *s.tables, s.y, gx], body)
