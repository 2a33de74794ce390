"""Pooling kernels of any size, for images with channels innermost in memory.

Lanes run over channels. Tables list the rows of x that the windows of each result row reach, and
the columns that those of each result column reach; -1 in the padding.
"""

from __future__ import annotations

from functools import cache
from math import inf
from typing import NamedTuple

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, SizeValue, Statement, Store, Type, Update,
)
from ..target.cost_model import MAX_POOL_WINDOW_EXTENT
from ..target.eager_costs import POOLED_LANES
from .pool import NO_PLACE, all_of, cast, compare, first_of_equals, number


class PoolNhwcSizes(NamedTuple):
    """A kernel's size arguments, in order.

    Results have `rows` * `columns` pixels of `channels`, in `vectors` of POOLED_LANES. Windows have
    `taps` rows and `window` columns; an image has `pixels`. Strides, in elements: `x_image` and
    `y_image` of images, `y_row` of result rows, `entries` of weight rows.
    """

    images: int
    rows: int
    columns: int
    taps: int
    window: int
    vectors: int
    channels: int
    pixels: int
    x_image: int
    y_image: int
    y_row: int
    entries: int


class Pixels:
    """Loops over result pixels, and loads of the elements that windows read.

    `bounds`: upper bounds of further sizes.
    """

    def __init__(self, type: Type, **bounds: int) -> None:
        self.type, bounds = (
            type,
            {"taps": MAX_POOL_WINDOW_EXTENT, "window": MAX_POOL_WINDOW_EXTENT, **bounds},
        )
        self.sizes = {name: Size(name, bounds.get(name)) for name in PoolNhwcSizes._fields}
        self.image, self.r, self.q, self.v = (Index(name) for name in ("image", "r", "q", "v"))
        self.lane, self.i, self.j = (Index(name) for name in ("lane", "i", "j"))
        self.x, self.y = Buffer(type, "x"), Buffer(type, "y")
        self.rows, self.columns = Buffer(Type.I64, "rows"), Buffer(Type.I64, "columns")
        self.row = Load(self.rows, self.at((self.r, "taps"), (self.i, 1)))
        self.column = Load(self.columns, self.at((self.q, "window"), (self.j, 1)))
        self.inside = all_of(
            *[compare(Scalar.GE, each, number(0)) for each in (self.row, self.column)]
        )
        self.known = compare(Scalar.LT, IndexValue(self.at((self.v, POOLED_LANES), (self.lane, 1))),
                             SizeValue(self.sizes["channels"]))

    def kernel(self, name: str, buffers: list[Buffer], body: Statement) -> Kernel:
        return Kernel(name, buffers, [body], list(self.sizes.values()))

    def at(self, *terms: tuple[Index, Extent | str]) -> Affine:
        return Affine(0, tuple([
            (i, self.sizes[s] if isinstance(s, str) else s) for i, s in terms]))

    def channels(self, image: str) -> Affine:
        return self.at((self.image, image), (self.v, POOLED_LANES), (self.lane, 1))

    @property
    def place(self) -> Affine:
        """The index of an element of the result."""
        return self.at((self.image, "y_image"), (self.r, "y_row"), (self.q, "channels"),
                       (self.v, POOLED_LANES), (self.lane, 1))

    @property
    def steps(self) -> tuple[tuple[Expression, Extent], ...]:
        """The offset of the pixel under the window from the image's first pixel."""
        return ((self.row, 1), (self.column, 1))

    @property
    def met(self) -> Load:
        return Load(self.x, self.channels("x_image"), self.steps, all_of(self.inside, self.known))

    @property
    def largest(self) -> Expression:
        """The element under the window; -inf in the padding."""
        lowest = Constant(self.type, -inf)
        return Apply(Scalar.WHERE, (self.inside, self.met, lowest), self.type)

    def windows(self, body: list[Statement]) -> Statement:
        """Loop over the elements of a window."""
        inner = Loop(self.j, self.sizes["window"], body)
        return Loop(self.i, self.sizes["taps"], [inner])

    def lanes(self, body: list[Statement]) -> Statement:
        return Loop(self.lane, POOLED_LANES, body, LoopKind.VECTORIZED)

    def each_pixel(self, body: list[Statement]) -> Statement:
        """Loop over all pixels of the result, parallel over images and rows."""
        body = [Loop(self.v, self.sizes["vectors"], [self.lanes(body)])]
        body = [Loop(self.q, self.sizes["columns"], body)]
        body = [Loop(self.r, self.sizes["rows"], body, LoopKind.PARALLEL)]
        return Loop(self.image, self.sizes["images"], body, LoopKind.PARALLEL)


@cache
def sums(type: Type) -> Kernel:
    """Build sums of windows, divided by by_row[r] * by_column[q].

    Buffers: x, rows, columns, by_row, by_column, y.
    """
    p, total = Pixels(type), Accumulator(ReduceOp.SUM, type)
    by_row, by_column = Buffer(type, "by_row"), Buffer(type, "by_column")
    divisor = Apply(Scalar.MUL, (Load(by_row, p.at((p.r, 1))), Load(by_column, p.at((p.q, 1)))),
                    type)
    body = p.each_pixel([
        Begin(total), p.windows([Update(total, p.met)]),
        Store(p.y, p.place, Apply(Scalar.DIV, (total, divisor), type), mask=p.known),
    ])
    return p.kernel("pool_sums_last", [p.x, p.rows, p.columns, by_row, by_column, p.y], body)


@cache
def maxima(type: Type) -> Kernel:
    """Build maxima of windows; NaN is the greatest. Buffers: x, rows, columns, y."""
    p, top = Pixels(type), Accumulator(ReduceOp.MAXIMUM, type)
    body = p.each_pixel([
        Begin(top), p.windows([Update(top, p.largest)]), Store(p.y, p.place, top, mask=p.known),
    ])
    return p.kernel("pool_maxima_last", [p.x, p.rows, p.columns, p.y], body)


@cache
def maxima_backward(type: Type) -> Kernel:
    """Add each window's gradient at the position of its maximum.

    Buffers: x, rows, columns, y, gy, gx. Parallel over images and channels only, because windows
    may overlap.
    """
    p, place = Pixels(type), Accumulator(ReduceOp.MINIMUM, Type.I32, "place")
    gy, gx, z = Buffer(type, "gy"), Buffer(type, "gx"), Index("z")
    target = p.at((p.image, "x_image"), (z, "channels"), (p.v, POOLED_LANES), (p.lane, 1))
    zero = Constant(type, 0.0)
    clear = Loop(z, p.sizes["pixels"], [p.lanes([Store(gx, target, zero, mask=p.known)])])
    number_of = cast(Apply(Scalar.ADD, (p.row, p.column), Type.I64), Type.I32)
    place_of_maximum = first_of_equals(p.met, Load(p.y, p.place, mask=p.known), number_of)
    place_of_maximum = Apply(
        Scalar.WHERE, (p.inside, place_of_maximum, number(NO_PLACE, Type.I32)), Type.I32
    )
    chosen = compare(Scalar.EQ, place, number_of)
    share = Apply(Scalar.WHERE, (chosen, Load(gy, p.place, mask=p.known), zero), type)
    store = Store(gx, p.channels("x_image"), share, p.steps, all_of(p.inside, p.known), add=True)
    spread = p.lanes(
        [Begin(place), p.windows([Update(place, place_of_maximum)]), p.windows([store])])
    pixels = Loop(p.r, p.sizes["rows"], [Loop(p.q, p.sizes["columns"], [spread])])
    vectors = Loop(p.v, p.sizes["vectors"], [clear, pixels], LoopKind.PARALLEL)
    nest = Loop(p.image, p.sizes["images"], [vectors], LoopKind.PARALLEL)
    return p.kernel("pool_maxima_last_backward", [p.x, p.rows, p.columns, p.y, gy, gx], nest)
