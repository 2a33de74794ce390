"""Pooling kernels of any size, for images with channels innermost in memory.

Lanes run over channels. Tables list the rows of x that the windows of each result row reach, and
the columns that those of each result column reach; -1 in the padding.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import NamedTuple

from ..loop_ir.ir import (
    Accumulator,
    Affine,
    Apply,
    Begin,
    Buffer,
    Constant,
    Expression,
    Extent,
    Index,
    IndexValue,
    Kernel,
    Load,
    Loop,
    LoopKind,
    ReduceOp,
    Scalar,
    Size,
    SizeValue,
    Statement,
    Store,
    Type,
    Update,
)
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES
from .pool import NO_PLACE, and_conditions, cast, compare, first_of_equals, number


class PoolNhwcSizes(NamedTuple):
    """A kernel's size arguments, in order.

    Results have `rows` * `columns` pixels of `channels`, in `vectors` of POOLED_LANES. Windows have
    `window_rows` * `window_columns` elements; an image of x has `image_pixels`. Strides are in
    elements.
    """

    images: int
    rows: int
    columns: int
    window_rows: int
    window_columns: int
    vectors: int
    channels: int
    image_pixels: int
    x_image_stride: int
    y_image_stride: int
    y_row_stride: int
    weight_row_stride: int


class Pixels:
    """Loops over result pixels, and loads of the elements that windows read.

    `bounds`: upper bounds of further sizes.
    """

    def __init__(self, type: Type, **bounds: int) -> None:
        self.type, bounds = (
            type,
            {
                "window_rows": MAX_POOL_WINDOW_EXTENT,
                "window_columns": MAX_POOL_WINDOW_EXTENT,
                **bounds,
            },
        )
        self.sizes = {name: Size(name, bounds.get(name)) for name in PoolNhwcSizes._fields}
        self.image, self.row, self.column, self.vector = (
            Index(name) for name in ("image", "r", "q", "v")
        )
        self.lane, self.tap_row, self.tap_column = (Index(name) for name in ("lane", "i", "j"))
        self.x, self.y = Buffer(type, "x"), Buffer(type, "y")
        self.rows, self.columns = Buffer(Type.I64, "rows"), Buffer(Type.I64, "columns")
        self.x_row = Load(self.rows, self.affine((self.row, "window_rows"), (self.tap_row, 1)))
        self.x_column = Load(
            self.columns, self.affine((self.column, "window_columns"), (self.tap_column, 1))
        )
        self.is_inside = and_conditions(
            *[compare(Scalar.GE, coordinate, number(0))
              for coordinate in (self.x_row, self.x_column)]
        )
        self.lane_mask = compare(
            Scalar.LT,
            IndexValue(self.affine((self.vector, POOLED_LANES), (self.lane, 1))),
            SizeValue(self.sizes["channels"]),
        )

    def kernel(self, name: str, buffers: list[Buffer], body: Statement) -> Kernel:
        return Kernel(name, buffers, [body], list(self.sizes.values()))

    def affine(self, *terms: tuple[Index, Extent | str]) -> Affine:
        return Affine(0, tuple([(i, self.sizes[s] if isinstance(s, str) else s) for i, s in terms]))

    def channel_index(self, image: str) -> Affine:
        return self.affine((self.image, image), (self.vector, POOLED_LANES), (self.lane, 1))

    @property
    def result_index(self) -> Affine:
        """The index of an element of the result."""
        return self.affine(
            (self.image, "y_image_stride"),
            (self.row, "y_row_stride"),
            (self.column, "channels"),
            (self.vector, POOLED_LANES),
            (self.lane, 1),
        )

    @property
    def x_offset(self) -> tuple[tuple[Expression, Extent], ...]:
        """The offset of the pixel under the window from the image's first pixel."""
        return ((self.x_row, 1), (self.x_column, 1))

    @property
    def x_element(self) -> Load:
        return Load(
            self.x,
            self.channel_index("x_image_stride"),
            self.x_offset,
            and_conditions(self.is_inside, self.lane_mask),
        )

    @property
    def x_element_or_lowest(self) -> Expression:
        """The element under the window; -inf in the padding."""
        lowest = Constant(self.type, -inf)
        return Apply(Scalar.WHERE, (self.is_inside, self.x_element, lowest), self.type)

    def windows(self, body: list[Statement]) -> Statement:
        """Loop over the elements of a window."""
        inner = Loop(self.tap_column, self.sizes["window_columns"], body)
        return Loop(self.tap_row, self.sizes["window_rows"], [inner])

    def lanes(self, body: list[Statement]) -> Statement:
        return Loop(self.lane, POOLED_LANES, body, LoopKind.VECTORIZED)

    def each_pixel(self, body: list[Statement]) -> Statement:
        """Loop over all pixels of the result, parallel over images and rows."""
        body = [Loop(self.vector, self.sizes["vectors"], [self.lanes(body)])]
        body = [Loop(self.column, self.sizes["columns"], body)]
        body = [Loop(self.row, self.sizes["rows"], body, LoopKind.PARALLEL)]
        return Loop(self.image, self.sizes["images"], body, LoopKind.PARALLEL)


@cache
def sums(type: Type) -> Kernel:
    """Build sums of windows, divided by by_row[r] * by_column[q].

    Buffers: x, rows, columns, by_row, by_column, y.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    by_row, by_column = Buffer(type, "by_row"), Buffer(type, "by_column")
    divisor = Apply(
        Scalar.MUL,
        (Load(by_row, p.affine((p.row, 1))), Load(by_column, p.affine((p.column, 1)))),
        type,
    )
    body = p.each_pixel(
        [
            Begin(total),
            p.windows([Update(total, p.x_element)]),
            Store(p.y, p.result_index, Apply(Scalar.DIV, (total, divisor), type), mask=p.lane_mask),
        ]
    )
    return p.kernel("pool_sums_last", [p.x, p.rows, p.columns, by_row, by_column, p.y], body)


@cache
def maxima(type: Type) -> Kernel:
    """Build maxima of windows; NaN is the greatest. Buffers: x, rows, columns, y."""
    p, top = Pixels(type), Accumulator(ReduceOp.MAXIMUM, type)
    body = p.each_pixel(
        [
            Begin(top),
            p.windows([Update(top, p.x_element_or_lowest)]),
            Store(p.y, p.result_index, top, mask=p.lane_mask),
        ]
    )
    return p.kernel("pool_maxima_last", [p.x, p.rows, p.columns, p.y], body)


@cache
def maxima_backward(type: Type) -> Kernel:
    """Add each window's gradient at the position of its maximum.

    Buffers: x, rows, columns, y, gy, gx. Parallel over images and channels only, because windows
    may overlap.
    """
    p, place = Pixels(type), Accumulator(ReduceOp.MINIMUM, Type.I32, "place")
    gy, gx, z = Buffer(type, "gy"), Buffer(type, "gx"), Index("z")
    target = p.affine(
        (p.image, "x_image_stride"), (z, "channels"), (p.vector, POOLED_LANES), (p.lane, 1)
    )
    zero = Constant(type, 0.0)
    clear = Loop(z, p.sizes["image_pixels"], [p.lanes([Store(gx, target, zero, mask=p.lane_mask)])])
    number_of = cast(Apply(Scalar.ADD, (p.x_row, p.x_column), Type.I64), Type.I32)
    place_of_maximum = first_of_equals(
        p.x_element, Load(p.y, p.result_index, mask=p.lane_mask), number_of
    )
    place_of_maximum = Apply(
        Scalar.WHERE, (p.is_inside, place_of_maximum, number(NO_PLACE, Type.I32)), Type.I32
    )
    chosen = compare(Scalar.EQ, place, number_of)
    share = Apply(Scalar.WHERE, (chosen, Load(gy, p.result_index, mask=p.lane_mask), zero), type)
    store = Store(
        gx, p.channel_index("x_image_stride"), share, p.x_offset,
        and_conditions(p.is_inside, p.lane_mask), add=True,
    )
    spread = p.lanes(
        [Begin(place), p.windows([Update(place, place_of_maximum)]), p.windows([store])]
    )
    pixels = Loop(p.row, p.sizes["rows"], [Loop(p.column, p.sizes["columns"], [spread])])
    vectors = Loop(p.vector, p.sizes["vectors"], [clear, pixels], LoopKind.PARALLEL)
    nest = Loop(p.image, p.sizes["images"], [vectors], LoopKind.PARALLEL)
    return p.kernel("pool_maxima_last_backward", [p.x, p.rows, p.columns, p.y, gy, gx], nest)
